#include "driver.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char* text(const char* format, const char* a, const char* b) {
	size_t n = strlen(format) + strlen(a) + strlen(b) + 1;
	char* s = malloc(n);
	if (s) snprintf(s, n, format, a, b);
	return s;
}

char* tandem_cuda_load(tandem_cuda_driver* d, const char* file) {
	memset(d, 0, sizeof *d);
	d->library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	if (!d->library) return text("%s%s", "", dlerror());
#define FIND(name, params)             \
	*(void**)&d->name = dlsym(d->library, #name); \
	if (!d->name) return text("%s has no function %s: it is too old, or no CUDA driver", file, #name);
	CUDA_FUNCTIONS(FIND)
#undef FIND
#define FIND(name, params) *(void**)&d->name = dlsym(d->library, #name);
	CUDA_OPTIONAL_FUNCTIONS(FIND)
#undef FIND
	return NULL;
}

CUresult tandem_cuda_init(tandem_cuda_driver* d) { return d->cuInit(0); }
CUresult tandem_cuda_version(tandem_cuda_driver* d, int* version) { return d->cuDriverGetVersion(version); }
int tandem_cuda_is_emulated(tandem_cuda_driver* d) { return d->tandem_emulated != NULL; }

const char* tandem_cuda_error_name(tandem_cuda_driver* d, CUresult code) {
	const char* s = NULL;
	return d->cuGetErrorName(code, &s) == 0 && s ? s : "";
}

const char* tandem_cuda_error_text(tandem_cuda_driver* d, CUresult code) {
	const char* s = NULL;
	return d->cuGetErrorString(code, &s) == 0 && s ? s : "";
}

CUresult tandem_cuda_count(tandem_cuda_driver* d, int* n) { return d->cuDeviceGetCount(n); }
CUresult tandem_cuda_device(tandem_cuda_driver* d, int index, CUdevice* dev) { return d->cuDeviceGet(dev, index); }

CUresult tandem_cuda_device_name(tandem_cuda_driver* d, CUdevice dev, char* name, int len) { return d->cuDeviceGetName(name, len, dev); }
CUresult tandem_cuda_device_bus(tandem_cuda_driver* d, CUdevice dev, char* id, int len) { return d->cuDeviceGetPCIBusId(id, len, dev); }
CUresult tandem_cuda_device_memory(tandem_cuda_driver* d, CUdevice dev, size_t* bytes) { return d->cuDeviceTotalMem_v2(bytes, dev); }

CUresult tandem_cuda_device_attribute(tandem_cuda_driver* d, CUdevice dev, int attribute, int* value) {
	return d->cuDeviceGetAttribute(value, attribute, dev);
}

static _Thread_local uint64_t current; // serial of this thread's context; 0 is none
static atomic_uint_fast64_t contexts;

static CUresult enter(tandem_cuda_context* c) {
	if (current == c->serial) return 0;
	CUresult r = c->driver->cuCtxSetCurrent(c->handle);
	if (r == 0) current = c->serial;
	return r;
}

#define ENTER(c)                \
	do {                          \
		CUresult r_ = enter(c);     \
		if (r_ != 0) return r_;     \
	} while (0)

CUresult tandem_cuda_retain(tandem_cuda_context* c) {
	c->serial = atomic_fetch_add(&contexts, 1) + 1;
	return c->driver->cuDevicePrimaryCtxRetain(&c->handle, c->device);
}

CUresult tandem_cuda_release(tandem_cuda_context* c) {
	c->driver->cuCtxSetCurrent(NULL);
	current = 0;
	return c->driver->cuDevicePrimaryCtxRelease_v2(c->device);
}

CUresult tandem_cuda_wait_all(tandem_cuda_context* c) {
	ENTER(c);
	return c->driver->cuCtxSynchronize();
}

CUresult tandem_cuda_load_module(tandem_cuda_context* c, const void* image, CUmodule* mod) {
	ENTER(c);
	return c->driver->cuModuleLoadData(mod, image);
}

CUresult tandem_cuda_unload_module(tandem_cuda_context* c, CUmodule mod) {
	ENTER(c);
	return c->driver->cuModuleUnload(mod);
}

CUresult tandem_cuda_function(tandem_cuda_context* c, CUmodule mod, const char* name, CUfunction* f) {
	ENTER(c);
	return c->driver->cuModuleGetFunction(f, mod, name);
}

CUresult tandem_cuda_function_attribute(tandem_cuda_context* c, CUfunction f, int attribute, int* value) {
	ENTER(c);
	return c->driver->cuFuncGetAttribute(value, attribute, f);
}

CUresult tandem_cuda_set_function_attribute(tandem_cuda_context* c, CUfunction f, int attribute, int value) {
	ENTER(c);
	return c->driver->cuFuncSetAttribute(f, attribute, value);
}

CUresult tandem_cuda_parameter_size(tandem_cuda_context* c, CUfunction f, size_t* bytes) {
	if (!c->driver->cuFuncGetParamInfo) return CUDA_ERROR_NOT_SUPPORTED;
	ENTER(c);
	size_t offset = 0;
	return c->driver->cuFuncGetParamInfo(f, 0, &offset, bytes);
}

CUresult tandem_cuda_alloc(tandem_cuda_context* c, size_t bytes, CUdeviceptr* p) {
	ENTER(c);
	return c->driver->cuMemAlloc_v2(p, bytes);
}

CUresult tandem_cuda_free(tandem_cuda_context* c, CUdeviceptr p) {
	ENTER(c);
	return c->driver->cuMemFree_v2(p);
}

CUresult tandem_cuda_memory(tandem_cuda_context* c, size_t* free, size_t* total) {
	ENTER(c);
	return c->driver->cuMemGetInfo_v2(free, total);
}

enum { PORTABLE = 1, DEVICEMAP = 2 };

CUresult tandem_cuda_alloc_host(tandem_cuda_context* c, size_t bytes, void** host, CUdeviceptr* p) {
	ENTER(c);
	CUresult r = c->driver->cuMemHostAlloc(host, bytes, PORTABLE | DEVICEMAP);
	if (r != 0) return r;
	r = c->driver->cuMemHostGetDevicePointer_v2(p, *host, 0);
	if (r != 0) c->driver->cuMemFreeHost(*host);
	else memset(*host, 0, bytes);
	return r;
}

CUresult tandem_cuda_free_host(tandem_cuda_context* c, void* host) {
	ENTER(c);
	return c->driver->cuMemFreeHost(host);
}

CUresult tandem_cuda_share(tandem_cuda_context* c, void* host, size_t bytes, CUdeviceptr* p) {
	ENTER(c);
	CUresult r = c->driver->cuMemHostRegister_v2(host, bytes, PORTABLE | DEVICEMAP);
	if (r != 0) return r;
	r = c->driver->cuMemHostGetDevicePointer_v2(p, host, 0);
	if (r != 0) c->driver->cuMemHostUnregister(host);
	return r;
}

CUresult tandem_cuda_unshare(tandem_cuda_context* c, void* host) {
	ENTER(c);
	return c->driver->cuMemHostUnregister(host);
}

enum { NON_BLOCKING = 1 };

CUresult tandem_cuda_create_stream(tandem_cuda_context* c, CUstream* s) {
	ENTER(c);
	return c->driver->cuStreamCreate(s, NON_BLOCKING);
}

CUresult tandem_cuda_destroy_stream(tandem_cuda_context* c, CUstream s) {
	ENTER(c);
	return c->driver->cuStreamDestroy_v2(s);
}

CUresult tandem_cuda_wait(tandem_cuda_context* c, CUstream s) {
	ENTER(c);
	return c->driver->cuStreamSynchronize(s);
}

CUresult tandem_cuda_launch(tandem_cuda_context* c, CUfunction f, unsigned x, unsigned y, unsigned threads, unsigned shared, CUstream s,
                            int early, void* args) {
	CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, .value.allowed = 1};
	CUlaunchConfig config = {x, y, 1, threads, 1, 1, shared, s, &attribute, early ? 1 : 0};
	ENTER(c);
	return c->driver->cuLaunchKernelEx(&config, f, &args, NULL);
}

CUresult tandem_cuda_box(tandem_cuda_context* c, void* map, CUdeviceptr p, uint64_t rows, uint64_t cols, uint64_t line, unsigned box_rows) {
	enum { NOT_SUPPORTED = 801, BFLOAT16 = 9, INTERLEAVE_NONE = 0, SWIZZLE_128B = 3, L2_256B = 3, FILL_ZEROS = 0 };
	if (!c->driver->cuTensorMapEncodeTiled) return NOT_SUPPORTED;
	const uint64_t dims[] = {cols, rows}, strides[] = {2 * line};
	const uint32_t box[] = {64, box_rows}, steps[] = {1, 1};
	ENTER(c);
	return c->driver->cuTensorMapEncodeTiled(map, BFLOAT16, 2, (void*)(uintptr_t)p, dims, strides, box, steps, INTERLEAVE_NONE, SWIZZLE_128B, L2_256B, FILL_ZEROS);
}

CUresult tandem_cuda_copy(tandem_cuda_context* c, CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream s) {
	ENTER(c);
	return c->driver->cuMemcpyAsync(dst, src, bytes, s);
}

CUresult tandem_cuda_zero(tandem_cuda_context* c, CUdeviceptr p, size_t bytes, CUstream s) {
	ENTER(c);
	return c->driver->cuMemsetD8Async(p, 0, bytes, s);
}

enum { DISABLE_TIMING = 2 };

CUresult tandem_cuda_create_event(tandem_cuda_context* c, int timed, CUevent* e) {
	ENTER(c);
	return c->driver->cuEventCreate(e, timed ? 0 : DISABLE_TIMING);
}

CUresult tandem_cuda_destroy_event(tandem_cuda_context* c, CUevent e) {
	ENTER(c);
	return c->driver->cuEventDestroy_v2(e);
}

CUresult tandem_cuda_record(tandem_cuda_context* c, CUevent e, CUstream s) {
	ENTER(c);
	return c->driver->cuEventRecord(e, s);
}

CUresult tandem_cuda_wait_event(tandem_cuda_context* c, CUstream s, CUevent e) {
	ENTER(c);
	return c->driver->cuStreamWaitEvent(s, e, 0);
}

CUresult tandem_cuda_elapsed(tandem_cuda_context* c, CUevent from, CUevent to, float* ms) {
	ENTER(c);
	return c->driver->cuEventElapsedTime(ms, from, to);
}

enum { CAPTURE_THREAD_LOCAL = 1 }; // other threads may allocate meanwhile

CUresult tandem_cuda_begin_capture(tandem_cuda_context* c, CUstream s) {
	ENTER(c);
	return c->driver->cuStreamBeginCapture_v2(s, CAPTURE_THREAD_LOCAL);
}

CUresult tandem_cuda_end_capture(tandem_cuda_context* c, CUstream s, CUgraph* g) {
	ENTER(c);
	return c->driver->cuStreamEndCapture(s, g);
}

CUresult tandem_cuda_instantiate(tandem_cuda_context* c, CUgraph g, CUgraphExec* x) {
	ENTER(c);
	CUresult r = c->driver->cuGraphInstantiateWithFlags(x, g, 0);
	c->driver->cuGraphDestroy(g);
	return r;
}

CUresult tandem_cuda_launch_graph(tandem_cuda_context* c, CUgraphExec x, CUstream s) {
	ENTER(c);
	return c->driver->cuGraphLaunch(x, s);
}

CUresult tandem_cuda_destroy_graph(tandem_cuda_context* c, CUgraph g) {
	ENTER(c);
	return c->driver->cuGraphDestroy(g);
}

CUresult tandem_cuda_destroy_exec(tandem_cuda_context* c, CUgraphExec x) {
	ENTER(c);
	return c->driver->cuGraphExecDestroy(x);
}
