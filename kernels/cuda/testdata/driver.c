// A driver for tests of the binding: a card that is a piece of host memory, with streams that do nothing until somebody
// waits, as late as a real one may. What it is and how it fails is set by macros when a test compiles it. When the context
// is given back, what has not been given back before is written to the file that FAKE_DRIVER_REPORT names.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../driver.h"

#ifndef NAME
#define NAME "Fake H200"
#endif
#ifndef COUNT
#define COUNT 1
#endif
#ifndef MAJOR
#define MAJOR 9
#endif
#ifndef MINOR
#define MINOR 0
#endif
#ifndef MEMORY
#define MEMORY (64 << 20)
#endif
#ifndef OTHERS // bytes that other processes have taken
#define OTHERS 0
#endif
#ifndef MODE
#define MODE 0
#endif
#ifndef VERSION
#define VERSION 13000
#endif
#ifndef INIT
#define INIT 0
#endif
#ifndef RETAIN
#define RETAIN 0
#endif
#ifndef LOAD
#define LOAD 0
#endif
#ifndef INSTANTIATE
#define INSTANTIATE 0
#endif

enum { INVALID_CONTEXT = 201, ILLEGAL_ADDRESS = 700, CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901, CAPTURE_THREAD = 908 };

struct CUmod_st {
	char* words;
};
struct CUfunc_st {
	char name[64];
	int most;
};
typedef struct op {
	enum { LAUNCH, COPY, ZERO, RECORD, WAIT, GRAPH } kind;
	CUfunction f;
	unsigned char args[64];
	CUdeviceptr dst, src;
	size_t bytes;
	CUevent event;
	CUgraph graph;
} op;
struct CUgraph_st {
	op* ops;
	int n;
};
struct CUgraphExec_st {
	struct CUgraph_st copy;
};
struct CUstream_st {
	op* ops;
	int n, done;
	CUgraph capture;
	pthread_t thread;
	int broken;
};
struct CUevent_st {
	CUstream stream;
	int at; // operations before the last record
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int contexts, modules, streams, events, graphs, arenas, hosts, fault;
static size_t taken;
static _Thread_local int current;

#define IN              \
	if (fault) return fault; \
	if (!current) return INVALID_CONTEXT;

CUresult cuInit(unsigned flags) { return flags ? 1 : INIT; }
CUresult cuDriverGetVersion(int* v) { return *v = VERSION, 0; }
CUresult cuGetErrorName(CUresult code, const char** s) {
	switch (code) {
	case CUDA_ERROR_OUT_OF_MEMORY: *s = "CUDA_ERROR_OUT_OF_MEMORY"; return 0;
	case ILLEGAL_ADDRESS: *s = "CUDA_ERROR_ILLEGAL_ADDRESS"; return 0;
	case CUDA_ERROR_INVALID_VALUE: *s = "CUDA_ERROR_INVALID_VALUE"; return 0;
	}
	return 1;
}
CUresult cuGetErrorString(CUresult code, const char** s) { return *s = code == ILLEGAL_ADDRESS ? "an illegal memory access" : "words", 0; }
CUresult cuDeviceGetCount(int* n) { return *n = COUNT, 0; }
CUresult cuDeviceGet(CUdevice* d, int i) { return *d = i, i >= COUNT; }
CUresult cuDeviceGetName(char* s, int n, CUdevice d) { return snprintf(s, n, "%s", NAME), 0; }
CUresult cuDeviceGetPCIBusId(char* s, int n, CUdevice d) { return snprintf(s, n, "0000:0%d:00.0", d), 0; }
CUresult cuDeviceTotalMem_v2(size_t* n, CUdevice d) { return *n = MEMORY, 0; }
CUresult cuDeviceGetAttribute(int* v, int a, CUdevice d) {
	switch (a) {
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return *v = MAJOR, 0;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: return *v = MINOR, 0;
	case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: return *v = 132, 0;
	case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: return *v = 232448, 0;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE: return *v = MODE, 0;
	}
	return 1;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* c, CUdevice d) {
	if (RETAIN) return RETAIN;
	contexts++;
	*c = (CUcontext)&contexts;
	return 0;
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice d) {
	if (fault) fault = modules = streams = events = graphs = arenas = hosts = taken = 0; // the context takes all of it along
	contexts--;
	FILE* f = fopen(getenv("FAKE_DRIVER_REPORT"), "w");
	fprintf(f, "contexts %d modules %d streams %d events %d graphs %d arenas %d hosts %d taken %zu\n", contexts, modules, streams, events, graphs,
	        arenas, hosts, taken);
	fclose(f);
	return 0;
}
CUresult cuCtxSetCurrent(CUcontext c) {
	current = c != NULL;
	return 0;
}

CUresult cuModuleLoadData(CUmodule* m, const void* image) {
	IN;
	if (LOAD) return LOAD;
	modules++;
	*m = malloc(sizeof **m);
	(*m)->words = strdup(image);
	return 0;
}
CUresult cuModuleUnload(CUmodule m) {
	IN;
	modules--;
	free(m->words);
	free(m);
	return 0;
}
CUresult cuModuleGetFunction(CUfunction* f, CUmodule m, const char* name) {
	IN;
#ifndef ANY // entry that is asked for is there
	if (!strstr(m->words, name)) return CUDA_ERROR_NOT_FOUND;
#endif
	*f = calloc(1, sizeof **f);
	snprintf((*f)->name, sizeof(*f)->name, "%s", name);
	return 0;
}
CUresult cuFuncGetAttribute(int* v, int a, CUfunction f) { return *v = 0, a != CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES; }
CUresult cuFuncSetAttribute(CUfunction f, int a, int v) {
	if (a != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || v > 232448) return 1;
	f->most = v;
	return 0;
}
CUresult cuFuncGetParamInfo(CUfunction f, size_t index, size_t* offset, size_t* size) { return *offset = 0, *size = 24, index != 0; }
#ifdef EMULATED
CUresult tandem_emulated(void) { return 0; }
#endif

// add: dst[i] += src[i]; fault: breaks the context; empty: nothing.
static void run(const op* o) {
	if (strcmp(o->f->name, "fault") == 0) fault = ILLEGAL_ADDRESS;
	if (strcmp(o->f->name, "add") != 0 || fault) return;
	struct {
		int *dst, *src;
		long n;
	} a;
	memcpy(&a, o->args, sizeof a);
	for (long i = 0; i < a.n; i++) a.dst[i] += a.src[i];
}

static void finish(CUstream s, int upto) {
	while (s->done < upto && !fault) {
		op o = s->ops[s->done++];
		switch (o.kind) {
		case LAUNCH: run(&o); break;
		case COPY: memmove((void*)o.dst, (void*)o.src, o.bytes); break;
		case ZERO: memset((void*)o.dst, 0, o.bytes); break;
		case RECORD: break;
		case WAIT:
			if (o.event->stream) finish(o.event->stream, o.bytes);
			break;
		case GRAPH:
			for (int i = 0; i < o.graph->n; i++) {
				if (o.graph->ops[i].kind == LAUNCH) run(&o.graph->ops[i]);
				else memmove((void*)o.graph->ops[i].dst, (void*)o.graph->ops[i].src, o.graph->ops[i].bytes);
			}
		}
	}
}

static CUresult give(CUstream s, op o) {
	pthread_mutex_lock(&lock);
	if (s->capture && o.kind != LAUNCH && o.kind != COPY) {
		s->broken = 1;
		pthread_mutex_unlock(&lock);
		return CAPTURE_UNSUPPORTED;
	}
	op** list = s->capture ? &s->capture->ops : &s->ops;
	int* n = s->capture ? &s->capture->n : &s->n;
	*list = realloc(*list, (*n + 1) * sizeof o);
	(*list)[(*n)++] = o;
	pthread_mutex_unlock(&lock);
	return 0;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* c, CUfunction f, void** params, void** extra) {
	IN;
	if (!c->gridX || !c->gridY || c->gridZ != 1 || !c->blockX || c->blockX > 1024 || c->blockY != 1 || c->blockZ != 1 || extra || c->shared > (unsigned)f->most)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < c->n; i++)
		if (c->attributes[i].id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION || c->attributes[i].value.allowed != 1) return CUDA_ERROR_INVALID_VALUE;
#ifdef IDLE
	return 0;
#endif
	op o = {.kind = LAUNCH, .f = f};
	memcpy(o.args, params[0], 24);
	return give(c->stream, o);
}

CUresult cuMemAlloc_v2(CUdeviceptr* p, size_t n) {
	IN;
	if (!n || taken + n + OTHERS > MEMORY) return n ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
	size_t* b = malloc(n + 256);
	memset(b, 0xee, n + 256);
	b[0] = n;
	*p = (CUdeviceptr)b + 256;
	arenas++;
	taken += n;
	return 0;
}
CUresult cuMemFree_v2(CUdeviceptr p) {
	IN;
	size_t* b = (size_t*)(p - 256);
	arenas--;
	taken -= b[0];
	free(b);
	return 0;
}
CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
	IN;
	*total = MEMORY;
	*free = MEMORY - OTHERS - taken;
	return 0;
}
CUresult cuMemHostAlloc(void** p, size_t n, unsigned flags) {
	IN;
	hosts++;
	*p = malloc(n);
	memset(*p, 0xee, n);
	return flags != 3;
}
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* d, void* p, unsigned flags) { return *d = (CUdeviceptr)p, 0; }
CUresult cuMemFreeHost(void* p) {
	IN;
	hosts--;
	free(p);
	return 0;
}
CUresult cuMemHostRegister_v2(void* p, size_t n, unsigned flags) {
	IN;
	if ((size_t)p % 4096 || n % 4096 || !n) return CUDA_ERROR_INVALID_VALUE;
	hosts++;
	return flags != 3;
}
CUresult cuMemHostUnregister(void* p) {
	IN;
	if (!p) return CUDA_ERROR_INVALID_VALUE;
	hosts--;
	return 0;
}

CUresult cuStreamCreate(CUstream* s, unsigned flags) {
	IN;
	streams++;
	*s = calloc(1, sizeof **s);
	return flags != 1;
}
CUresult cuStreamDestroy_v2(CUstream s) {
	IN;
	streams--;
	free(s->ops);
	free(s);
	return 0;
}
CUresult cuStreamSynchronize(CUstream s) {
	IN;
	if (s->capture) {
		s->broken = 1;
		return CAPTURE_UNSUPPORTED;
	}
	pthread_mutex_lock(&lock);
	finish(s, s->n);
	pthread_mutex_unlock(&lock);
	return fault;
}
CUresult cuCtxSynchronize(void) {
	IN;
	return 0;
}
CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream s) {
	IN;
	return give(s, (op){.kind = COPY, .dst = dst, .src = src, .bytes = n});
}
CUresult cuMemsetD8Async(CUdeviceptr p, unsigned char v, size_t n, CUstream s) {
	IN;
	return v ? 1 : give(s, (op){.kind = ZERO, .dst = p, .bytes = n});
}

CUresult cuEventCreate(CUevent* e, unsigned flags) {
	IN;
	events++;
	*e = calloc(1, sizeof **e);
	return flags != 2 && flags != 0;
}
CUresult cuEventDestroy_v2(CUevent e) {
	IN;
	events--;
	free(e);
	return 0;
}
CUresult cuEventRecord(CUevent e, CUstream s) {
	IN;
	e->stream = s;
	e->at = s->n;
	return give(s, (op){.kind = RECORD});
}
CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned flags) {
	IN;
	return give(s, (op){.kind = WAIT, .event = e, .bytes = e->at});
}
CUresult cuEventElapsedTime(float* ms, CUevent a, CUevent b) {
	IN;
	*ms = b->at - a->at; // a millisecond an operation
	return 0;
}

CUresult cuStreamBeginCapture_v2(CUstream s, int mode) {
	IN;
	s->capture = calloc(1, sizeof *s->capture);
	s->broken = 0;
	s->thread = pthread_self();
	graphs++;
	return mode != 1;
}
CUresult cuGraphDestroy(CUgraph g) {
	graphs--;
	free(g->ops);
	free(g);
	return 0;
}
CUresult cuStreamEndCapture(CUstream s, CUgraph* g) {
	IN;
	if (!pthread_equal(s->thread, pthread_self())) return CAPTURE_THREAD;
	CUgraph made = s->capture;
	s->capture = NULL;
	if (s->broken) return cuGraphDestroy(made), CAPTURE_INVALIDATED;
	*g = made;
	return 0;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec* x, CUgraph g, unsigned long long flags) {
	IN;
	if (INSTANTIATE) return INSTANTIATE;
	graphs++;
	*x = calloc(1, sizeof **x);
	(*x)->copy.n = g->n;
	(*x)->copy.ops = malloc(g->n * sizeof(op) + 1);
	memcpy((*x)->copy.ops, g->ops, g->n * sizeof(op));
	return 0;
}
CUresult cuGraphLaunch(CUgraphExec x, CUstream s) {
	IN;
	return give(s, (op){.kind = GRAPH, .graph = &x->copy});
}
CUresult cuGraphExecDestroy(CUgraphExec x) {
	IN;
	graphs--;
	free(x->copy.ops);
	free(x);
	return 0;
}
