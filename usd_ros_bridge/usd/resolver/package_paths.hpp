// Where package://name/path leads, without OpenUSD: the rules of usd/packages.py once more (REP 0158 section 1.2.5).
#pragma once

#include <map>
#include <optional>
#include <string>

namespace usd_ros_bridge {

/// Directories of packages by name, absolute.
using Directories = std::map<std::string, std::string>;

/// What a package path says.
struct PackagePath {
  std::string name;
  std::string path;  ///< Below the package's directory, without "." and ".."; "" for the directory itself.
};

enum class Fault {
  kNone,
  kNoPackagePath,   ///< Not of the form package:/...
  kLeavesPackage,   ///< By "..", with "/" or with "\" as the separator.
  kUnknownPackage,  ///< No directory is known by that name.
};

/// Takes `package://name/path` apart, or `package:/name/path` as OpenUSD normalises it where nobody resolves the scheme.
Fault split(const std::string& asset_path, PackagePath* found);

/// The directory of a package: of `given`, else below USD_ROS_PACKAGE_PATH, else by the ament index.
///
/// The variables are read at every call: a process may set them after this library was loaded.
std::optional<std::string> directory_of(const std::string& name, const Directories& given);

/// The file that a package path names, whether it exists or not.
Fault locate(const std::string& asset_path, const Directories& given, std::string* file);

/// The spelling that all package paths to one file share; `asset_path` itself where it names none.
std::string normalised(const std::string& asset_path);

/// Whether a text is a package's name: letters, digits, "_" and "-", a letter first.
bool is_package_name(const std::string& text);

/// What to tell about a path that is not followed.
std::string explain(Fault fault, const std::string& asset_path);

}  // namespace usd_ros_bridge
