// OpenUSD's headers, from an installation (pxr/usd/ar/) or from the wheels pxr-ar-dev and its siblings (pxr/ar/).
#pragma once

#if __has_include(<pxr/pxr.h>)

#include <pxr/pxr.h>

#include <pxr/base/tf/diagnostic.h>
#include <pxr/base/tf/stringUtils.h>
#include <pxr/usd/ar/defineResolver.h>
#include <pxr/usd/ar/defineResolverContext.h>
#include <pxr/usd/ar/filesystemAsset.h>
#include <pxr/usd/ar/filesystemWritableAsset.h>
#include <pxr/usd/ar/resolver.h>
#ifdef PXR_PYTHON_SUPPORT_ENABLED
#include <pxr/base/tf/pySafePython.h>
#include <pxr/base/tf/pyLock.h>
#include <pxr/external/boost/python/converter/arg_to_python.hpp>
#include <pxr/external/boost/python/object.hpp>
#define USD_ROS_BRIDGE_PYTHON PXR_BOOST_NAMESPACE::python
#endif

#else

#ifdef PXR_PYTHON_SUPPORT_ENABLED
#include <pxr/tf/pySafePython.h>
#endif
#include <pxr/ar/defineResolver.h>
#include <pxr/ar/defineResolverContext.h>
#include <pxr/ar/filesystemAsset.h>
#include <pxr/ar/filesystemWritableAsset.h>
#include <pxr/ar/resolver.h>
#include <pxr/tf/diagnostic.h>
#include <pxr/tf/stringUtils.h>
#ifdef PXR_PYTHON_SUPPORT_ENABLED
#include <pxr/tf/pyLock.h>
#include <pxr/boost/python/converter/arg_to_python.hpp>
#include <pxr/boost/python/object.hpp>
#define USD_ROS_BRIDGE_PYTHON PXR_BOOST_NAMESPACE::python
#endif
#define PXR_NAMESPACE_OPEN_SCOPE AR_NAMESPACE_OPEN_SCOPE
#define PXR_NAMESPACE_CLOSE_SCOPE AR_NAMESPACE_CLOSE_SCOPE

#endif
