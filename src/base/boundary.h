/* What a library wrote, told to the memory sanitizer: it cannot see into libraries that it has not compiled,
 * and takes what they write for never written. Elsewhere this is nothing. */
#ifndef WEIR_BASE_BOUNDARY_H
#define WEIR_BASE_BOUNDARY_H

#if defined(__has_feature)
#if __has_feature(memory_sanitizer)
#include <sanitizer/msan_interface.h>
#define WEIR__MEMORY_SANITIZER    1
#define WEIR__WRITTEN(data, size) __msan_unpoison(data, size)
#endif
#endif
#ifndef WEIR__WRITTEN
#define WEIR__WRITTEN(data, size) ((void)0)
#endif

#endif
