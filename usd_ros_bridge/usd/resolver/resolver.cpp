// The ArResolver for package:// that REP 0158 section 1.2.5 asks tools for, as a URI resolver: OpenUSD hands it the
// paths with that scheme and nothing else. It leads to files; what opens them is the process's own resolver.
//
// Directories come from the stage's resolver context where it has some, else from the environment. From a string:
// `Ar.GetResolver().CreateContextFromString("package", "name=/directory\nother=/directory")`.

#include "openusd.hpp"
#include "package_paths.hpp"

#include <filesystem>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <system_error>

using usd_ros_bridge::Directories;
using usd_ros_bridge::Fault;

PXR_NAMESPACE_OPEN_SCOPE

/// Where packages are, for the stages that are opened with it.
struct UsdRosBridgePackages {
  Directories directories;

  bool operator==(const UsdRosBridgePackages& other) const { return directories == other.directories; }
  bool operator<(const UsdRosBridgePackages& other) const { return directories < other.directories; }

  /// One `name=directory` a line.
  std::string text() const {
    std::string text;
    for (const auto& [name, directory] : directories) {
      text += name + "=" + directory + "\n";
    }
    return text;
  }
};

size_t hash_value(const UsdRosBridgePackages& packages) { return std::hash<std::string>()(packages.text()); }

std::string ArGetDebugString(const UsdRosBridgePackages& packages) { return "packages:\n" + packages.text(); }

AR_DECLARE_RESOLVER_CONTEXT(UsdRosBridgePackages);

PXR_NAMESPACE_CLOSE_SCOPE

#ifdef USD_ROS_BRIDGE_PYTHON
// Python sees the context as a dict. Decided when compiled: registering a converter would take Python's lock when the
// library is loaded, which may be in a thread that Python's main thread waits for.
namespace USD_ROS_BRIDGE_PYTHON::converter {

template <>
struct arg_to_python<PXR_NS::UsdRosBridgePackages> : handle<> {
  explicit arg_to_python(const PXR_NS::UsdRosBridgePackages& packages) : handle<>(dict_of(packages)) {}

 private:
  static PyObject* dict_of(const PXR_NS::UsdRosBridgePackages& packages) {
    PyObject* const found = PyDict_New();
    for (const auto& [name, directory] : packages.directories) {
      PyObject* const value = PyUnicode_DecodeFSDefault(directory.c_str());
      if (found == nullptr || value == nullptr || PyDict_SetItemString(found, name.c_str(), value) != 0) {
        Py_XDECREF(value);
        Py_XDECREF(found);
        return nullptr;
      }
      Py_DECREF(value);
    }
    return found;
  }
};

}  // namespace USD_ROS_BRIDGE_PYTHON::converter
#endif

PXR_NAMESPACE_OPEN_SCOPE

class UsdRosBridgePackageResolver final : public ArResolver {
 protected:
  std::string _CreateIdentifier(const std::string& path, const ArResolvedPath&) const override {
    return usd_ros_bridge::normalised(path);
  }

  std::string _CreateIdentifierForNewAsset(const std::string& path, const ArResolvedPath&) const override {
    return usd_ros_bridge::normalised(path);
  }

  ArResolvedPath _Resolve(const std::string& path) const override {
    const std::string file = _Locate(path);
    std::error_code error;
    return !file.empty() && std::filesystem::exists(file, error) ? ArResolvedPath(file) : ArResolvedPath();
  }

  ArResolvedPath _ResolveForNewAsset(const std::string& path) const override {
    return ArResolvedPath(_Locate(path));
  }

  ArResolverContext _CreateContextFromString(const std::string& text) const override {
    UsdRosBridgePackages packages;
    for (const std::string& line : TfStringTokenize(text, "\n")) {
      const std::size_t equals = line.find('=');
      const std::string name = line.substr(0, equals);
      std::error_code error;
      if (equals == std::string::npos || !usd_ros_bridge::is_package_name(name)) {
        TF_WARN("package: '%s' is no name=directory", line.c_str());
      } else {
        packages.directories[name] = std::filesystem::absolute(line.substr(equals + 1), error).string();
      }
    }
    return packages.directories.empty() ? ArResolverContext() : ArResolverContext(packages);
  }

  // One path is another file in a context with other directories: layers must not be shared between the two.
  bool _IsContextDependentPath(const std::string&) const override { return true; }

  ArTimestamp _GetModificationTimestamp(const std::string&, const ArResolvedPath& file) const override {
    return ArFilesystemAsset::GetModificationTimestamp(file);
  }

  std::shared_ptr<ArAsset> _OpenAsset(const ArResolvedPath& file) const override {
    return ArFilesystemAsset::Open(file);
  }

  std::shared_ptr<ArWritableAsset> _OpenAssetForWrite(const ArResolvedPath& file, WriteMode mode) const override {
    return ArFilesystemWritableAsset::Create(file, mode);
  }

 private:
  std::string _Locate(const std::string& path) const {
    static const Directories none;
    const auto* const packages = _GetCurrentContextObject<UsdRosBridgePackages>();
    std::string file;
    const Fault fault = usd_ros_bridge::locate(path, packages ? packages->directories : none, &file);
    if (fault != Fault::kNone) {
      _WarnOnce(usd_ros_bridge::explain(fault, path));
    }
    return file;
  }

  // OpenUSD asks for a path many times, and itself says only that the file is not there.
  static void _WarnOnce(const std::string& message) {
    constexpr std::size_t kMost = 1000;
    static std::mutex mutex;
    static std::set<std::string> said;
    {
      const std::lock_guard<std::mutex> lock(mutex);
      if (said.size() >= kMost || !said.insert(message).second) {
        return;
      }
    }
    TF_WARN("%s", message.c_str());
  }
};

AR_DEFINE_RESOLVER(UsdRosBridgePackageResolver, ArResolver);

PXR_NAMESPACE_CLOSE_SCOPE
