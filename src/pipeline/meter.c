/* See meter.h. Each allocation carries its size in front, in as many bytes as keep its alignment; a mapping's
 * is told when it goes. All other entries are those of the environment below, called with its own context. */
#include "pipeline/meter.h"

#include <string.h>

enum { HEAD_SIZE = 16 };

static uint64_t size_of(const void *memory) {
    uint64_t size;
    memcpy(&size, (const uint8_t *)memory - HEAD_SIZE, sizeof size);
    return size;
}

static void *keep(weir_pipeline__meter *meter, uint8_t *block, size_t size) {
    uint64_t noted = size;
    memcpy(block, &noted, sizeof noted);
    meter->bytes += size;
    return block + HEAD_SIZE;
}

static void *meter_resize(void *context, void *memory, size_t size) {
    weir_pipeline__meter *meter = context;
    uint64_t old_size = memory ? size_of(memory) : 0;
    if (size > SIZE_MAX - HEAD_SIZE)
        return NULL;
    uint8_t *block = meter->below->resize(meter->below->context,
                                          memory ? (uint8_t *)memory - HEAD_SIZE : NULL, size + HEAD_SIZE);
    if (!block)
        return NULL;
    meter->bytes -= old_size;
    return keep(meter, block, size);
}

static void *meter_allocate(void *context, size_t size) {
    weir_pipeline__meter *meter = context;
    uint8_t *block =
        size > SIZE_MAX - HEAD_SIZE ? NULL : meter->below->allocate(meter->below->context, size + HEAD_SIZE);
    return block ? keep(meter, block, size) : NULL;
}

static void meter_release(void *context, void *memory) {
    weir_pipeline__meter *meter = context;
    if (!memory)
        return;
    meter->bytes -= size_of(memory);
    meter->below->release(meter->below->context, (uint8_t *)memory - HEAD_SIZE);
}

static void *meter_map(void *context, int file, size_t size) {
    weir_pipeline__meter *meter = context;
    void *memory = meter->below->map(meter->below->context, file, size);
    meter->bytes += memory ? size : 0;
    return memory;
}

static int meter_unmap(void *context, void *memory, size_t size) {
    weir_pipeline__meter *meter = context;
    meter->bytes -= size;
    return meter->below->unmap(meter->below->context, memory, size);
}

/* Builders and buffers ask for memory and nothing else: other entries are left out, so that a call of one
 * is seen at once. */
void weir_pipeline__meter_open(weir_pipeline__meter *meter, const weir_env *below) {
    *meter = (weir_pipeline__meter){.below = below};
    meter->env = (weir_env){.context = meter,
                            .allocate = meter_allocate,
                            .resize = meter_resize,
                            .release = meter_release,
                            .map = meter_map,
                            .unmap = meter_unmap};
}
