/* What the files of the fake driver share: how a call begins and ends, and its memory in pages. */
#ifndef WEIR_TESTS_FAKE_CALLS_H
#define WEIR_TESTS_FAKE_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

#define DRIVER(name, parameters)                                                                             \
    EXPORT int name parameters;                                                                              \
    int name parameters

/* Added to addresses of device memory: no pointer of the host looks so. */
#define FAR_AWAY ((uintptr_t)0x4000000000000000)

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    INVALID_CONTEXT = 201
};
/* Begins a call, locked: false, and unlocked, where it is to fail with *result. Every call ends with
 * fake_end.
 */
bool fake_begin(const char *name, int *result);
int fake_end(int result);
void fake_lock(void);
bool fake_has_context(void);

#define BEGIN()                                                                                              \
    int result_;                                                                                             \
    if (!fake_begin(__func__, &result_))                                                                     \
        return result_;

/* Giving back needs no context, and what is given back is gone even where the call fails. */
#define BEGIN_GIVING_BACK()                                                                                  \
    int result_ = SUCCESS;                                                                                   \
    if (!fake_begin(__func__, &result_))                                                                     \
        fake_lock();

#define BEGIN_IN_CONTEXT()                                                                                   \
    BEGIN()                                                                                                  \
    if (!fake_has_context())                                                                                 \
        return fake_end(INVALID_CONTEXT);

/* Handles that are not given back. */
void fake_count(int64_t change);

/* What the compiler makes of a kernel. */
enum { FAKE_IMAGE_SIZE = 21 };
extern const char fake_image[FAKE_IMAGE_SIZE];

/* Whether bytes, by their host address, are all mapped and accessible; and what is not given back. */
bool fake_pages_have(const uint8_t *data, size_t size);
int64_t fake_pages_live(void);

#endif
