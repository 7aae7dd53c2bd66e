#include "package_paths.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

namespace usd_ros_bridge {
namespace {

namespace fs = std::filesystem;

// In lower case only, as the bridge reads assets: one that works here works wherever the bridge runs.
constexpr std::string_view kScheme = "package:";
constexpr const char* kPathVariable = "USD_ROS_PACKAGE_PATH";
constexpr const char* kPrefixVariable = "AMENT_PREFIX_PATH";
constexpr const char* kIndex = "share/ament_index/resource_index/packages";

std::vector<std::string> parts_of(std::string_view text, std::string_view separators) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(separators), text.size());
    if (end > 0) {
      parts.emplace_back(text.substr(0, end));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

bool leaves(std::string_view path, std::string_view separators) {
  int depth = 0;
  for (const std::string& part : parts_of(path, separators)) {
    if (part != ".") {
      depth += part == ".." ? -1 : 1;
    }
    if (depth < 0) {
      return true;
    }
  }
  return false;
}

std::vector<fs::path> paths_in(const char* variable) {
  std::vector<fs::path> found;
  const char* const value = std::getenv(variable);
  for (const std::string& entry : parts_of(value == nullptr ? "" : value, ":")) {
    std::error_code error;
    fs::path absolute = fs::absolute(entry, error);
    if (!error) {
      found.push_back(std::move(absolute));
    }
  }
  return found;
}

std::string joined(const std::string& directory, const std::string& path) {
  return path.empty() ? directory : directory + "/" + path;
}

}  // namespace

bool is_package_name(const std::string& text) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto is_allowed = [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '-'; };
  return !text.empty() && is_letter(text.front()) && std::all_of(text.begin(), text.end(), is_allowed);
}

Fault split(const std::string& asset_path, PackagePath* found) {
  std::string_view rest(asset_path);
  if (rest.substr(0, kScheme.size()) != kScheme) {
    return Fault::kNoPackagePath;
  }
  rest.remove_prefix(kScheme.size());
  if (rest.empty() || rest.front() != '/') {
    return Fault::kNoPackagePath;
  }
  rest.remove_prefix(std::min(rest.find_first_not_of('/'), rest.size()));
  const std::size_t end = std::min(rest.find('/'), rest.size());
  found->name = std::string(rest.substr(0, end));
  rest.remove_prefix(end);
  // Whether "\" separates is the platform's business: a path that leaves the package in either reading is refused.
  if (leaves(rest, "/") || leaves(rest, "/\\")) {
    return Fault::kLeavesPackage;
  }
  std::vector<std::string> kept;
  for (std::string& part : parts_of(rest, "/")) {
    if (part == "..") {
      kept.pop_back();
    } else if (part != ".") {
      kept.push_back(std::move(part));
    }
  }
  found->path.clear();
  for (const std::string& part : kept) {
    found->path += found->path.empty() ? part : "/" + part;
  }
  return Fault::kNone;
}

std::optional<std::string> directory_of(const std::string& name, const Directories& given) {
  if (const auto found = given.find(name); found != given.end()) {
    return found->second;
  }
  if (!is_package_name(name)) {
    return std::nullopt;
  }
  std::error_code error;
  for (const fs::path& base : paths_in(kPathVariable)) {
    if (fs::is_directory(base / name, error)) {
      return (base / name).string();
    }
  }
  for (const fs::path& prefix : paths_in(kPrefixVariable)) {
    if (fs::is_regular_file(prefix / kIndex / name, error)) {
      return (prefix / "share" / name).string();
    }
  }
  return std::nullopt;
}

Fault locate(const std::string& asset_path, const Directories& given, std::string* file) {
  PackagePath path;
  if (const Fault fault = split(asset_path, &path); fault != Fault::kNone) {
    return fault;
  }
  const std::optional<std::string> directory = directory_of(path.name, given);
  if (!directory) {
    return Fault::kUnknownPackage;
  }
  *file = joined(*directory, path.path);
  return Fault::kNone;
}

std::string normalised(const std::string& asset_path) {
  PackagePath path;
  if (split(asset_path, &path) != Fault::kNone || path.name.empty()) {
    return asset_path;
  }
  return joined("package://" + path.name, path.path);
}

std::string explain(Fault fault, const std::string& asset_path) {
  PackagePath path;
  split(asset_path, &path);
  const std::string begin = "'" + asset_path + "' is not followed: ";
  switch (fault) {
    case Fault::kNone:
      return "";
    case Fault::kNoPackagePath:
      return begin + "it is not of the form package://name/path";
    case Fault::kLeavesPackage:
      return begin + "it leaves the package '" + path.name + "'";
    case Fault::kUnknownPackage:
      return begin + "no package '" + path.name + "' is known; install it, or add it to " + kPathVariable;
  }
  return begin;
}

}  // namespace usd_ros_bridge
