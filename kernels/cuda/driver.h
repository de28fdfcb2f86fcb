// The part of the CUDA driver that we call: its types and functions as we declare them, a table that is filled from a
// library at run time, and one function for each thing that Go asks for. No header and no library of CUDA is needed to
// build, and none to start.
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef int CUresult; // 0 is success
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef struct CUctx_st* CUcontext;
typedef struct CUmod_st* CUmodule;
typedef struct CUfunc_st* CUfunction;
typedef struct CUstream_st* CUstream;
typedef struct CUevent_st* CUevent;
typedef struct CUgraph_st* CUgraph;
typedef struct CUgraphExec_st* CUgraphExec;

typedef struct {
	int id; // of what the value is
	char pad[4];
	union {
		char pad[64];
		int allowed;
	} value;
} CUlaunchAttribute;

typedef struct {
	unsigned gridX, gridY, gridZ, blockX, blockY, blockZ, shared;
	CUstream stream;
	CUlaunchAttribute* attributes;
	unsigned n;
} CUlaunchConfig;

// Every function by the name that the library exports, with its parameters. Versions matter: an unversioned cuMemAlloc
// is another function, with 32-bit sizes.
#define CUDA_FUNCTIONS(F)                                                                                                      \
	F(cuInit, (unsigned flags))                                                                                                  \
	F(cuDriverGetVersion, (int* version))                                                                                        \
	F(cuGetErrorName, (CUresult code, const char** text))                                                                        \
	F(cuGetErrorString, (CUresult code, const char** text))                                                                      \
	F(cuDeviceGetCount, (int* n))                                                                                                \
	F(cuDeviceGet, (CUdevice * dev, int index))                                                                                  \
	F(cuDeviceGetName, (char* name, int len, CUdevice dev))                                                                      \
	F(cuDeviceGetAttribute, (int* value, int attribute, CUdevice dev))                                                           \
	F(cuDeviceGetPCIBusId, (char* id, int len, CUdevice dev))                                                                    \
	F(cuDeviceTotalMem_v2, (size_t * bytes, CUdevice dev))                                                                       \
	F(cuDevicePrimaryCtxRetain, (CUcontext * ctx, CUdevice dev))                                                                 \
	F(cuDevicePrimaryCtxRelease_v2, (CUdevice dev))                                                                              \
	F(cuCtxSetCurrent, (CUcontext ctx))                                                                                          \
	F(cuCtxSynchronize, (void))                                                                                                  \
	F(cuModuleLoadData, (CUmodule * mod, const void* image))                                                                     \
	F(cuModuleUnload, (CUmodule mod))                                                                                            \
	F(cuModuleGetFunction, (CUfunction * f, CUmodule mod, const char* name))                                                     \
	F(cuFuncGetAttribute, (int* value, int attribute, CUfunction f))                                                             \
	F(cuFuncSetAttribute, (CUfunction f, int attribute, int value))                                                              \
	F(cuLaunchKernelEx, (const CUlaunchConfig* config, CUfunction f, void** params, void** extra))                               \
	F(cuMemAlloc_v2, (CUdeviceptr * p, size_t bytes))                                                                            \
	F(cuMemFree_v2, (CUdeviceptr p))                                                                                             \
	F(cuMemGetInfo_v2, (size_t * free, size_t * total))                                                                          \
	F(cuMemHostAlloc, (void** p, size_t bytes, unsigned flags))                                                                  \
	F(cuMemHostGetDevicePointer_v2, (CUdeviceptr * p, void* host, unsigned flags))                                               \
	F(cuMemFreeHost, (void* p))                                                                                                  \
	F(cuMemHostRegister_v2, (void* p, size_t bytes, unsigned flags))                                                             \
	F(cuMemHostUnregister, (void* p))                                                                                            \
	F(cuMemsetD8Async, (CUdeviceptr p, unsigned char value, size_t bytes, CUstream s))                                           \
	F(cuMemcpyAsync, (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream s))                                               \
	F(cuStreamCreate, (CUstream * s, unsigned flags))                                                                            \
	F(cuStreamDestroy_v2, (CUstream s))                                                                                          \
	F(cuStreamSynchronize, (CUstream s))                                                                                         \
	F(cuStreamWaitEvent, (CUstream s, CUevent e, unsigned flags))                                                                \
	F(cuStreamBeginCapture_v2, (CUstream s, int mode))                                                                           \
	F(cuStreamEndCapture, (CUstream s, CUgraph * g))                                                                             \
	F(cuGraphInstantiateWithFlags, (CUgraphExec * x, CUgraph g, unsigned long long flags))                                       \
	F(cuGraphLaunch, (CUgraphExec x, CUstream s))                                                                                \
	F(cuGraphExecDestroy, (CUgraphExec x))                                                                                       \
	F(cuGraphDestroy, (CUgraph g))                                                                                               \
	F(cuEventCreate, (CUevent * e, unsigned flags))                                                                              \
	F(cuEventDestroy_v2, (CUevent e))                                                                                            \
	F(cuEventRecord, (CUevent e, CUstream s))                                                                                    \
	F(cuEventElapsedTime, (float* ms, CUevent from, CUevent to))

// Functions that a driver may lack: NULL then.
#define CUDA_OPTIONAL_FUNCTIONS(F)                                                                                             \
	F(cuFuncGetParamInfo, (CUfunction f, size_t index, size_t* offset, size_t* size)) /* from 12.4 on */                         \
	F(cuTensorMapEncodeTiled, (void* map, int type, unsigned rank, void* address, const uint64_t* dims, const uint64_t* strides, \
	                           const uint32_t* box, const uint32_t* steps, int interleave, int swizzle, int l2, int fill))       \
	F(tandem_emulated, (void)) /* exported by a driver that has the kernels in itself, and asks for no images */

enum {
	CUDA_ERROR_INVALID_VALUE = 1,
	CUDA_ERROR_OUT_OF_MEMORY = 2,
	CUDA_ERROR_NO_DEVICE = 100,
	CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
	CUDA_ERROR_INVALID_IMAGE = 200,
	CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
	CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
	CUDA_ERROR_JIT_COMPILER_NOT_FOUND = 221,
	CUDA_ERROR_NOT_FOUND = 500,
	CUDA_ERROR_NOT_SUPPORTED = 801,
};

enum { // of a device
	CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
	CU_DEVICE_ATTRIBUTE_COMPUTE_MODE = 20,
	CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
	CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
	CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
};

enum { // of a function
	CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
	CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
};

enum { // of a launch
	CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6,
};

#define TANDEM_CUDA_POINTER(name, params) CUresult(*name) params;

// A driver is a library with its functions.
typedef struct {
	void* library;
	CUDA_FUNCTIONS(TANDEM_CUDA_POINTER)
	CUDA_OPTIONAL_FUNCTIONS(TANDEM_CUDA_POINTER)
} tandem_cuda_driver;

// A context is what a call runs in. Whichever thread calls, it becomes the thread's current one first, if it is not: Go
// moves goroutines between threads.
typedef struct {
	tandem_cuda_driver* driver;
	CUdevice device;
	CUcontext handle;
	uint64_t serial; // no two contexts of a process have the same
} tandem_cuda_context;

// Opens a library and fills the table. NULL if all went well, else why not, for the caller to free.
char* tandem_cuda_load(tandem_cuda_driver* d, const char* file);

CUresult tandem_cuda_init(tandem_cuda_driver* d);
CUresult tandem_cuda_version(tandem_cuda_driver* d, int* version);
const char* tandem_cuda_error_name(tandem_cuda_driver* d, CUresult code); // "" if the driver knows none
const char* tandem_cuda_error_text(tandem_cuda_driver* d, CUresult code);
int tandem_cuda_is_emulated(tandem_cuda_driver* d);
CUresult tandem_cuda_count(tandem_cuda_driver* d, int* n);
CUresult tandem_cuda_device(tandem_cuda_driver* d, int index, CUdevice* dev);
CUresult tandem_cuda_device_name(tandem_cuda_driver* d, CUdevice dev, char* name, int len);
CUresult tandem_cuda_device_bus(tandem_cuda_driver* d, CUdevice dev, char* id, int len);
CUresult tandem_cuda_device_memory(tandem_cuda_driver* d, CUdevice dev, size_t* bytes);
CUresult tandem_cuda_device_attribute(tandem_cuda_driver* d, CUdevice dev, int attribute, int* value);

CUresult tandem_cuda_retain(tandem_cuda_context* c);
CUresult tandem_cuda_release(tandem_cuda_context* c);
CUresult tandem_cuda_wait_all(tandem_cuda_context* c);

CUresult tandem_cuda_load_module(tandem_cuda_context* c, const void* image, CUmodule* mod);
CUresult tandem_cuda_unload_module(tandem_cuda_context* c, CUmodule mod);
CUresult tandem_cuda_function(tandem_cuda_context* c, CUmodule mod, const char* name, CUfunction* f);
CUresult tandem_cuda_function_attribute(tandem_cuda_context* c, CUfunction f, int attribute, int* value);
CUresult tandem_cuda_set_function_attribute(tandem_cuda_context* c, CUfunction f, int attribute, int value);
CUresult tandem_cuda_parameter_size(tandem_cuda_context* c, CUfunction f, size_t* bytes); // 801 where the driver can't tell

CUresult tandem_cuda_alloc(tandem_cuda_context* c, size_t bytes, CUdeviceptr* p);
CUresult tandem_cuda_free(tandem_cuda_context* c, CUdeviceptr p);
CUresult tandem_cuda_memory(tandem_cuda_context* c, size_t* free, size_t* total);
CUresult tandem_cuda_alloc_host(tandem_cuda_context* c, size_t bytes, void** host, CUdeviceptr* p);
CUresult tandem_cuda_free_host(tandem_cuda_context* c, void* host);
CUresult tandem_cuda_share(tandem_cuda_context* c, void* host, size_t bytes, CUdeviceptr* p);
CUresult tandem_cuda_unshare(tandem_cuda_context* c, void* host);

CUresult tandem_cuda_create_stream(tandem_cuda_context* c, CUstream* s);
CUresult tandem_cuda_destroy_stream(tandem_cuda_context* c, CUstream s);
CUresult tandem_cuda_wait(tandem_cuda_context* c, CUstream s);
CUresult tandem_cuda_launch(tandem_cuda_context* c, CUfunction f, unsigned x, unsigned y, unsigned threads, unsigned shared, CUstream s,
                            int early, void* args); // early: placed while the kernel before ends
// A tensor map of a bfloat16 matrix, for boxes of box_rows lines of 64 elements, swizzled; zeros beyond the edge.
CUresult tandem_cuda_box(tandem_cuda_context* c, void* map, CUdeviceptr p, uint64_t rows, uint64_t cols, uint64_t line, unsigned box_rows);
CUresult tandem_cuda_copy(tandem_cuda_context* c, CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream s);
CUresult tandem_cuda_zero(tandem_cuda_context* c, CUdeviceptr p, size_t bytes, CUstream s);

CUresult tandem_cuda_create_event(tandem_cuda_context* c, int timed, CUevent* e);
CUresult tandem_cuda_destroy_event(tandem_cuda_context* c, CUevent e);
CUresult tandem_cuda_record(tandem_cuda_context* c, CUevent e, CUstream s);
CUresult tandem_cuda_wait_event(tandem_cuda_context* c, CUstream s, CUevent e);
CUresult tandem_cuda_elapsed(tandem_cuda_context* c, CUevent from, CUevent to, float* ms);

CUresult tandem_cuda_begin_capture(tandem_cuda_context* c, CUstream s);
CUresult tandem_cuda_end_capture(tandem_cuda_context* c, CUstream s, CUgraph* g);
CUresult tandem_cuda_instantiate(tandem_cuda_context* c, CUgraph g, CUgraphExec* x); // and destroys g
CUresult tandem_cuda_launch_graph(tandem_cuda_context* c, CUgraphExec x, CUstream s);
CUresult tandem_cuda_destroy_graph(tandem_cuda_context* c, CUgraph g);
CUresult tandem_cuda_destroy_exec(tandem_cuda_context* c, CUgraphExec x);
