/* The version of these headers, for the preprocessor. rapt_version() and rapt::version() give that
 * of the library. */
#ifndef RAPT_VERSION_H
#define RAPT_VERSION_H

#define RAPT_VERSION_MAJOR 0
#define RAPT_VERSION_MINOR 1
#define RAPT_VERSION_PATCH 0

#endif
