/* weir_tool/device_work.h: streams, events, copies, and memory that both sides read. */
#ifndef WEIR_TOOL_DEVICE_WORK_H
#define WEIR_TOOL_DEVICE_WORK_H

#include "weir/device.h"

/* The host's memory that the device can read by itself. It belongs to the device. */
weir_memory weir_device_pinned(weir_device *device);

/* ---- Streams and events ---------------------------------------------------------------------- */

/* A stream that does not wait for the default one. */
WEIR_CHECKED weir_status weir_stream_open(weir_device *device, weir_stream *out, weir_error *error);
void weir_stream_close(weir_device *device, weir_stream stream);

/* Waits until all work of the stream is done. */
WEIR_CHECKED weir_status weir_stream_sync(weir_device *device, weir_stream stream, weir_error *error);

/* Makes what the stream is given from now on wait for an event, as it was recorded last. */
WEIR_CHECKED weir_status weir_stream_wait(weir_device *device, weir_stream stream, weir_event event,
                                          weir_error *error);

WEIR_CHECKED weir_status weir_event_open(weir_device *device, weir_event *out, weir_error *error);
void weir_event_close(weir_device *device, weir_event event);
WEIR_CHECKED weir_status weir_event_record(weir_device *device, weir_event event, weir_stream stream,
                                           weir_error *error);
WEIR_CHECKED weir_status weir_event_query(weir_device *device, weir_event event, bool *is_done,
                                          weir_error *error);

/* ---- Work on a stream ------------------------------------------------------------------------ */

/* One copy; the host's side must be left alone until it is done. From memory that is not pinned it is slow.
 */
WEIR_CHECKED weir_status weir_copy_to_device(weir_device *device, void *to, const void *from, size_t size,
                                             weir_stream stream, weir_error *error);
WEIR_CHECKED weir_status weir_copy_to_host(weir_device *device, void *to, const void *from, size_t size,
                                           weir_stream stream, weir_error *error);

/* Writes zeros. */
WEIR_CHECKED weir_status weir_device_clear(weir_device *device, void *memory, size_t size, weir_stream stream,
                                           weir_error *error);

#endif
