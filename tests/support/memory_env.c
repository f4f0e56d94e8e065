/* See memory_env.h. */
#include "support/memory_env.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

memory_file *memory_env_file(memory_env *memory, const char *name) {
    for (size_t i = 0; i < MEMORY_FILES; i++)
        if (memory->files[i].exists && strcmp(memory->files[i].name, name) == 0)
            return &memory->files[i];
    return NULL;
}

static memory_file *create_file(memory_env *memory, const char *name) {
    for (size_t i = 0; i < MEMORY_FILES; i++) {
        memory_file *file = &memory->files[i];
        if (file->exists || strlen(name) >= sizeof file->name)
            continue;
        file->exists = true;
        file->size = 0;
        strcpy(file->name, name);
        return file;
    }
    return NULL;
}

static int memory_open(void *context, const char *path, int flags, unsigned mode) {
    (void)mode;
    memory_env *memory = context;
    memory_file *file = memory_env_file(memory, path);
    if (file && (flags & O_DIRECTORY)) {
        errno = ENOTDIR;
        return -1;
    }
    if (flags & O_DIRECTORY)
        return MEMORY_HANDLES; /* a handle that can be synced and closed */
    if (file && (flags & O_CREAT) && (flags & O_EXCL)) {
        errno = EEXIST;
        return -1;
    }
    if (!file && (flags & O_CREAT))
        file = create_file(memory, path);
    if (!file) {
        errno = ENOENT;
        return -1;
    }
    if (flags & O_TRUNC)
        file->size = 0;
    for (int i = 0; i < MEMORY_HANDLES; i++)
        if (!memory->handles[i].file) {
            memory->handles[i] = (memory_handle){.file = file, .appends = (flags & O_APPEND) != 0};
            return i;
        }
    errno = EMFILE;
    return -1;
}

static int memory_close(void *context, int handle) {
    memory_env *memory = context;
    if (handle < MEMORY_HANDLES)
        memory->handles[handle].file = NULL;
    return 0;
}

static ssize_t memory_pread(void *context, int handle, void *out, size_t size, uint64_t offset) {
    memory_env *memory = context;
    const memory_file *file = memory->handles[handle].file;
    size_t rest = offset < file->size ? file->size - (size_t)offset : 0;
    size_t count = size < rest ? size : rest;
    if (count > 0)
        memcpy(out, file->data + offset, count);
    return (ssize_t)count;
}

static ssize_t memory_read(void *context, int handle, void *out, size_t size) {
    memory_env *memory = context;
    ssize_t count = memory_pread(context, handle, out, size, memory->handles[handle].offset);
    memory->handles[handle].offset += (size_t)count;
    return count;
}

static ssize_t memory_write(void *context, int handle, const void *data, size_t size) {
    memory_env *memory = context;
    memory_handle *at = &memory->handles[handle];
    memory_file *file = at->file;
    size_t offset = at->appends ? file->size : at->offset;
    if (offset + size > file->capacity) {
        file->capacity = 2 * (offset + size);
        file->data = realloc(file->data, file->capacity);
    }
    if (size > 0)
        memcpy(file->data + offset, data, size);
    at->offset = offset + size;
    file->size = at->offset > file->size ? at->offset : file->size;
    return (ssize_t)size;
}

static ssize_t memory_pwrite(void *context, int handle, const void *data, size_t size, uint64_t offset) {
    memory_env *memory = context;
    memory_handle kept = memory->handles[handle];
    memory->handles[handle] = (memory_handle){.file = kept.file, .offset = (size_t)offset};
    ssize_t written = memory_write(context, handle, data, size);
    memory->handles[handle] = kept;
    return written;
}

static int memory_sync(void *context, int handle) {
    (void)context;
    (void)handle;
    return 0;
}

static int memory_truncate(void *context, int handle, uint64_t size) {
    memory_env *memory = context;
    memory_file *file = memory->handles[handle].file;
    if (size < file->size)
        file->size = (size_t)size;
    return 0;
}

static int memory_size(void *context, int handle, uint64_t *size) {
    memory_env *memory = context;
    *size = memory->handles[handle].file->size;
    return 0;
}

static int memory_remove(void *context, const char *path) {
    memory_file *file = memory_env_file(context, path);
    if (!file) {
        errno = ENOENT;
        return -1;
    }
    file->exists = false;
    return 0;
}

static int memory_rename(void *context, const char *from, const char *to) {
    memory_env *memory = context;
    memory_file *file = memory_env_file(memory, from);
    if (!file) {
        errno = ENOENT;
        return -1;
    }
    if (memory_env_file(memory, to))
        memory_remove(context, to);
    snprintf(file->name, sizeof file->name, "%s", to);
    return 0;
}

static int memory_inspect(void *context, int handle, const char *path, weir_file_info *out) {
    memory_env *memory = context;
    const memory_file *file = handle >= 0 ? memory->handles[handle].file : memory_env_file(memory, path);
    if (!file) {
        errno = ENOENT;
        return -1;
    }
    *out = (weir_file_info){
        .kind = WEIR_FILE_REGULAR, .size = file->size, .number = (uint64_t)(file - memory->files)};
    return 0;
}

static int memory_list(void *context, const char *folder,
                       bool (*each)(void *argument, const char *name, bool is_folder, bool is_file),
                       void *argument) {
    memory_env *memory = context;
    size_t size = strcmp(folder, ".") == 0 ? 0 : strlen(folder) + 1;
    for (size_t i = 0; i < MEMORY_FILES; i++) {
        const char *path = memory->files[i].name;
        bool is_below = size == 0 || (strncmp(path, folder, size - 1) == 0 && path[size - 1] == '/');
        if (memory->files[i].exists && is_below && !strchr(path + size, '/') &&
            !each(argument, path + size, false, true))
            break;
    }
    return 0;
}

/* A file's bytes as they are now: who maps one does not see what is written later. */
static void *memory_map(void *context, int handle, size_t size) {
    void *memory = weir_env_default()->map(NULL, -1, size);
    if (memory && handle >= 0)
        memory_pread(context, handle, memory, size, 0);
    return memory;
}

/* Paths are just names: every folder is there. */
static int memory_make_folder(void *context, const char *path) {
    (void)context;
    (void)path;
    return 0;
}

/* Files that have a name do not change, so that a copy is as good. */
static int memory_link(void *context, const char *from, const char *to) {
    const memory_file *file = memory_env_file(context, from);
    if (!file || memory_env_file(context, to)) {
        errno = file ? EEXIST : ENOENT;
        return -1;
    }
    memory_env_put(context, to, file->data, file->size);
    return 0;
}

static int memory_lock(void *context, int handle) {
    (void)context;
    (void)handle;
    return 0;
}

static void *memory_allocate(void *context, size_t size) {
    (void)context;
    return malloc(size ? size : 1);
}

static void *memory_resize(void *context, void *memory, size_t size) {
    (void)context;
    return realloc(memory, size ? size : 1);
}

static void memory_release(void *context, void *memory) {
    (void)context;
    free(memory);
}

void memory_env_init(memory_env *memory) {
    memset(memory, 0, sizeof *memory);
    memory->env = *weir_env_default();
    memory->env.context = memory;
    memory->env.allocate = memory_allocate;
    memory->env.resize = memory_resize;
    memory->env.release = memory_release;
    memory->env.open = memory_open;
    memory->env.close = memory_close;
    memory->env.read = memory_read;
    memory->env.pread = memory_pread;
    memory->env.write = memory_write;
    memory->env.pwrite = memory_pwrite;
    memory->env.sync = memory_sync;
    memory->env.truncate = memory_truncate;
    memory->env.size = memory_size;
    memory->env.rename = memory_rename;
    memory->env.remove = memory_remove;
    memory->env.inspect = memory_inspect;
    memory->env.list = memory_list;
    memory->env.map = memory_map;
    memory->env.make_folder = memory_make_folder;
    memory->env.link = memory_link;
    memory->env.lock = memory_lock;
    memory->env.unlock = memory_lock;
}

void memory_env_close(memory_env *memory) {
    for (size_t i = 0; i < MEMORY_FILES; i++)
        free(memory->files[i].data);
}

void memory_env_put(memory_env *memory, const char *name, const void *data, size_t size) {
    if (memory_env_file(memory, name))
        memory_remove(memory, name);
    int handle = memory_open(memory, name, O_WRONLY | O_CREAT, 0);
    memory_write(memory, handle, data, size);
    memory_close(memory, handle);
}
