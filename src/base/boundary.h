/* What a library wrote, told to the memory sanitizer: it cannot see into libraries that it has not compiled,
 * and takes what they write for never written. And what nobody may touch, told to the address sanitizer: it
 * cannot see where in a block of memory one thing ends and the next begins. Elsewhere this is nothing. */
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

#if defined(__SANITIZE_ADDRESS__)
#define WEIR__ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WEIR__ADDRESS_SANITIZER 1
#endif
#endif
#ifdef WEIR__ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#define WEIR__CLOSE(memory, size) __asan_poison_memory_region(memory, size)
#define WEIR__OPEN(memory, size)  __asan_unpoison_memory_region(memory, size)
enum { WEIR__GAP = 16 }; /* between two things */
#else
#define WEIR__CLOSE(memory, size) ((void)(memory), (void)(size))
#define WEIR__OPEN(memory, size)  ((void)(memory), (void)(size))
enum { WEIR__GAP = 0 };
#endif

#endif
