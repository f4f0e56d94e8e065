/* weir_tool/device_work.h: making events, and clearing a device's memory. */
#ifndef WEIR_TOOL_DEVICE_WORK_H
#define WEIR_TOOL_DEVICE_WORK_H

#include "weir/device.h"

WEIR_CHECKED weir_status weir_event_open(weir_device *device, weir_event *out, weir_error *error);
void weir_event_close(weir_device *device, weir_event event);
WEIR_CHECKED weir_status weir_event_record(weir_device *device, weir_event event, weir_stream stream,
                                           weir_error *error);

/* Writes zeros. */
WEIR_CHECKED weir_status weir_device_clear(weir_device *device, void *memory, size_t size, weir_stream stream,
                                           weir_error *error);

#endif
