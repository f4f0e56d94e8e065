/* weir.torch's attention: memory and strides of torch's tensors, as numbers, to weir/attention.h. What the
 * numbers mean is python/weir/_attention.py's to check; nothing of torch is known here. */
#include "module.h"

#include <stdlib.h>
#include <string.h>

typedef struct py_attention {
    py_shared shared;
    weir_device *device; /* NULL: the host */
    weir_attention *attention;
} py_attention;

static py_attention *attention_of(PyObject *self) {
    return (py_attention *)((py_object *)self)->shared;
}

static void destroy_attention(py_shared *self) {
    weir_attention_close(((py_attention *)self)->attention);
    weir_device_close(((py_attention *)self)->device);
    free(self);
}

/* _open(None, "cuda" or the path of a driver, the device's number) */
static PyObject *attention_open(PyObject *class, PyObject *args) {
    const char *library = NULL;
    weir_device_options options = {.size = sizeof options};
    weir_status status = WEIR_OK;
    weir_error error;
    if (!PyArg_ParseTuple(args, "zO&:_open", &library, py_to_uint32, &options.ordinal))
        return NULL;
    options.library = options.compiler = library && strchr(library, '/') ? library : NULL;
    py_attention *shared = py_shared_new(sizeof *shared, destroy_attention);
    if (shared && library)
        status = weir_device_open(NULL, &options, &shared->device, &error);
    if (shared && status == WEIR_OK)
        status = weir_attention_open(NULL, shared->device, &shared->attention, &error);
    return py_opened(class, shared, status, &error);
}

/* _lists_size(B, S, R) */
static PyObject *attention_lists_size(PyObject *Py_UNUSED(class), PyObject *args) {
    uint32_t sequences, length, rows;
    uint64_t size;
    weir_error error;
    if (!PyArg_ParseTuple(args, "O&O&O&:_lists_size", py_to_uint32, &sequences, py_to_uint32, &length,
                          py_to_uint32, &rows))
        return NULL;
    if (weir_attention_lists_size(sequences, length, rows, &size, &error) != WEIR_OK)
        return py_raise(&error);
    return PyLong_FromUnsignedLongLong(size);
}

/* A device's calls only give it work: they keep the GIL, and with it one thread at a time. The host's
 * compute. */
#define CALL(shared, call)                                                                                   \
    do {                                                                                                     \
        if ((shared)->device) {                                                                              \
            status = call;                                                                                   \
        } else {                                                                                             \
            PY_UNLOCKED(status = call);                                                                      \
        }                                                                                                    \
    } while (0)

/* _lists(B, S, R, threads, (seq_row_ids, column_ids, is_padding, fk_adj, col_perm), lists, stream) */
static PyObject *attention_lists(PyObject *self, PyObject *args) {
    weir_attention_batch batch = {0};
    ull tensors[5], lists, stream;
    weir_status status;
    weir_error error;
    if (!PyArg_ParseTuple(args, "O&O&O&O&(KKKKK)KK:_lists", py_to_uint32, &batch.sequences, py_to_uint32,
                          &batch.length, py_to_uint32, &batch.rows, py_to_uint32, &batch.threads, &tensors[0],
                          &tensors[1], &tensors[2], &tensors[3], &tensors[4], &lists, &stream))
        return NULL;
    batch.seq_row_ids = (const void *)(uintptr_t)tensors[0];
    batch.column_ids = (const void *)(uintptr_t)tensors[1];
    batch.is_padding = (const void *)(uintptr_t)tensors[2];
    batch.fk_adj = (const void *)(uintptr_t)tensors[3];
    batch.col_perm = (const void *)(uintptr_t)tensors[4];
    py_attention *shared = attention_of(self);
    CALL(shared, weir_attention_lists(shared->attention, &batch, (void *)(uintptr_t)lists,
                                      (weir_stream)stream, &error));
    return status == WEIR_OK ? Py_NewRef(Py_None) : py_raise(&error);
}

/* (address, stride of B, of H, of S) */
static int to_tensor(PyObject *value, void *out) {
    weir_attention_tensor *tensor = out;
    ull address;
    long long strides[3];
    if (!PyArg_ParseTuple(value, "KLLL", &address, &strides[0], &strides[1], &strides[2]))
        return 0;
    *tensor = (weir_attention_tensor){(void *)(uintptr_t)address, {strides[0], strides[1], strides[2]}};
    return 1;
}

/* _run(is_backward, pattern, dtype, (B, S, R, H, D), threads, scale, lists, q, k, v, o, lse, g, dq, dk, dv,
 * delta, stream) */
static PyObject *attention_run(PyObject *self, PyObject *args) {
    weir_attention_call call = {.size = sizeof call};
    int is_backward, pattern, dtype;
    ull lists, lse, delta, stream;
    weir_status status;
    weir_error error;
    if (!PyArg_ParseTuple(args, "pii(O&O&O&O&O&)O&dKO&O&O&O&KO&O&O&O&KK:_run", &is_backward, &pattern, &dtype,
                          py_to_uint32, &call.sequences, py_to_uint32, &call.length, py_to_uint32, &call.rows,
                          py_to_uint32, &call.heads, py_to_uint32, &call.head_size, py_to_uint32,
                          &call.threads, &call.scale, &lists, to_tensor, &call.q, to_tensor, &call.k,
                          to_tensor, &call.v, to_tensor, &call.o, &lse, to_tensor, &call.o_gradient,
                          to_tensor, &call.q_gradient, to_tensor, &call.k_gradient, to_tensor,
                          &call.v_gradient, &delta, &stream))
        return NULL;
    call.pattern = (weir_attention_pattern)pattern;
    call.dtype = (weir_attention_dtype)dtype;
    call.lists = (const void *)(uintptr_t)lists;
    call.lse = (void *)(uintptr_t)lse;
    call.delta = (void *)(uintptr_t)delta;
    py_attention *shared = attention_of(self);
    if (is_backward)
        CALL(shared, weir_attention_backward(shared->attention, &call, (weir_stream)stream, &error));
    else
        CALL(shared, weir_attention_forward(shared->attention, &call, (weir_stream)stream, &error));
    return status == WEIR_OK ? Py_NewRef(Py_None) : py_raise(&error);
}

/* _mask(lists, B, S, R, pattern, out) */
static PyObject *attention_mask(PyObject *Py_UNUSED(class), PyObject *args) {
    ull lists, out;
    uint32_t sequences, length, rows;
    int pattern;
    weir_error error;
    if (!PyArg_ParseTuple(args, "KO&O&O&iK:_mask", &lists, py_to_uint32, &sequences, py_to_uint32, &length,
                          py_to_uint32, &rows, &pattern, &out))
        return NULL;
    weir_status status = weir_attention_mask((const void *)(uintptr_t)lists, sequences, length, rows,
                                             (weir_attention_pattern)pattern, (void *)(uintptr_t)out, &error);
    return status == WEIR_OK ? Py_NewRef(Py_None) : py_raise(&error);
}

static PyMethodDef methods[] = {
    {"_open", attention_open, METH_VARARGS | METH_CLASS, "Attention on the host or on a device."},
    {"_lists_size", attention_lists_size, METH_VARARGS | METH_STATIC, "The bytes of lists."},
    {"_lists", attention_lists, METH_VARARGS, "Makes the lists of a batch."},
    {"_run", attention_run, METH_VARARGS, "Attention forward or backward."},
    {"_mask", attention_mask, METH_VARARGS | METH_STATIC, "Lists of the host as a mask."},
    {NULL, NULL, 0, NULL}};

bool py_add_attention(PyObject *module) {
    return py_add_shell(module, NULL, "weir._weir.Attention", "Attention on the host or on a device.",
                        methods, NULL, NULL);
}
