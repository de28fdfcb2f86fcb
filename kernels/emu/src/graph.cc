// Capture, and graphs that are run again with the arguments they were captured with.
#include "api.h"

using namespace emu;

#define BEGIN                       \
	Driver& d = driver();             \
	std::unique_lock lock(d.mutex);   \
	if (int bad = ready()) return bad

#define STREAM(s, handle)        \
	Stream* s = stream_of(handle); \
	if (!s) return INVALID_HANDLE

EMU_API cuStreamBeginCapture_v2(void* stream, int mode) {
	BEGIN;
	(void)d;
	STREAM(s, stream);
	if (s == &d.null) return CAPTURE_UNSUPPORTED;
	if (s->capture || mode < 0 || mode > 2) return INVALID_VALUE;
	s->capture = std::make_shared<Capture>();
	s->capture->graph = std::make_shared<Graph>();
	s->capture->origin = s;
	s->capture->mode = mode;
	s->capture->streams.insert(s);
	s->ends.clear();
	return SUCCESS;
}

// Every node that comes before the given ones, and these.
static std::set<int> before(const Graph& g, std::vector<int> from) {
	std::set<int> all;
	while (!from.empty()) {
		int i = from.back();
		from.pop_back();
		if (all.insert(i).second) from.insert(from.end(), g.after[i].begin(), g.after[i].end());
	}
	return all;
}

EMU_API cuStreamEndCapture(void* stream, void** out) {
	BEGIN;
	STREAM(s, stream);
	if (!s->capture || s->capture->origin != s) return CAPTURE_UNMATCHED;
	std::shared_ptr<Capture> k = s->capture;
	bool joined = before(*k->graph, s->ends).size() == k->graph->nodes.size();
	for (Stream* o : k->streams) {
		o->capture = nullptr;
		o->ends.clear();
	}
	k->origin = nullptr;
	if (out) *out = nullptr;
	if (k->invalid) return CAPTURE_INVALIDATED;
	if (!joined) return CAPTURE_UNJOINED;
	if (!out) return INVALID_VALUE;
	d.graphs[k->graph.get()] = k->graph;
	*out = k->graph.get();
	return SUCCESS;
}

EMU_API cuStreamIsCapturing(void* stream, int* status) {
	BEGIN;
	(void)d;
	STREAM(s, stream);
	*status = !s->capture ? 0 : s->capture->invalid ? 2 : 1;
	return SUCCESS;
}

EMU_API cuGraphGetNodes(void* graph, void*, size_t* n) {
	BEGIN;
	if (!d.graphs.count(graph)) return INVALID_HANDLE;
	*n = d.graphs[graph]->nodes.size();
	return SUCCESS;
}

EMU_API cuGraphInstantiateWithFlags(void** out, void* graph, unsigned long long) {
	BEGIN;
	if (!d.graphs.count(graph)) return INVALID_HANDLE;
	auto x = std::make_shared<Graph>(*d.graphs[graph]);
	for (Command& c : x->nodes)
		if (c.work) c.work = std::make_shared<Launch>(*c.work); // two instances are numbered apart
	d.execs[x.get()] = x;
	*out = x.get();
	return SUCCESS;
}

EMU_API cuGraphUpload(void* exec, void*) {
	BEGIN;
	return d.execs.count(exec) ? SUCCESS : INVALID_HANDLE;
}

EMU_API cuGraphLaunch(void* exec, void* stream) {
	BEGIN;
	STREAM(s, stream);
	if (!d.execs.count(exec)) return INVALID_HANDLE;
	Command c{};
	c.kind = Command::graph;
	c.nodes = d.execs[exec];
	return enqueue(lock, s, std::move(c));
}

EMU_API cuGraphExecDestroy(void* exec) {
	BEGIN;
	return d.execs.erase(exec) ? SUCCESS : INVALID_HANDLE;
}

EMU_API cuGraphDestroy(void* graph) {
	BEGIN;
	return d.graphs.erase(graph) ? SUCCESS : INVALID_HANDLE;
}
