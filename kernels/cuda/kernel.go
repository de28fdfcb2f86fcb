package cuda

// #include <stdlib.h>
// #include "driver.h"
import "C"

import (
	"fmt"
	"unsafe"

	"tandem/kernels"
)

// A kernel is an entry of a module.
type kernel struct {
	name string
	id   int // counts from 0
	f    C.CUfunction
	args int // bytes of its argument; -1 where the driver can't tell
}

// load loads an image and finds its entries.
func (d *Device) load(i Image) error {
	text, err := i.text()
	if err != nil {
		return err
	}
	mem := C.CBytes(text)
	defer C.free(mem)
	var m C.CUmodule
	switch r := C.tandem_cuda_load_module(d.ctx, mem, &m); r {
	case 0:
	case C.CUDA_ERROR_INVALID_IMAGE, C.CUDA_ERROR_NO_BINARY_FOR_GPU, C.CUDA_ERROR_UNSUPPORTED_PTX_VERSION, C.CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
		err := d.driver.fail(r, "cuModuleLoadData", fmt.Sprintf("load %s on %s", i.Name, d.card.Name))
		if d.images.tooOld(d.card) {
			return fmt.Errorf("%w: the driver is for CUDA %s and the kernels were compiled by %s: update the driver, or use the CPU", err, d.card.Driver, d.images.CUDA)
		}
		return err
	case C.CUDA_ERROR_OUT_OF_MEMORY:
		return d.full(d.driver.fail(r, "cuModuleLoadData", fmt.Sprintf("load %s on %s", i.Name, d.card.Name)))
	default:
		return d.driver.fail(r, "cuModuleLoadData", fmt.Sprintf("load %s on %s", i.Name, d.card.Name))
	}
	d.modules = append(d.modules, m)
	for _, e := range i.Entries {
		if _, err := d.kernel(e); err != nil { // now, since loading while a graph is recorded would end the recording
			return err
		}
	}
	return nil
}

// kernel finds an entry in whichever module has it.
func (d *Device) kernel(name string) (*kernel, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if k := d.kernels[name]; k != nil {
		return k, nil
	}
	k := &kernel{name: name, id: len(d.kernels), args: -1}
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	found := false
	for i := len(d.modules) - 1; i >= 0 && !found; i-- {
		r := C.tandem_cuda_function(d.ctx, d.modules[i], text, &k.f)
		if found = r == 0; !found && r != C.CUDA_ERROR_NOT_FOUND {
			return nil, d.driver.fail(r, "cuModuleGetFunction", "find kernel "+name)
		}
	}
	if !found {
		return nil, fmt.Errorf("cuda: kernel %s: it is not among those for %s", name, d.card.Name)
	}
	var static C.int
	if err := d.driver.check(C.tandem_cuda_function_attribute(d.ctx, k.f, C.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, &static), "cuFuncGetAttribute", "kernel %s: ask for its shared memory", name); err != nil {
		return nil, err
	}
	most := C.int(d.card.GPU.Shared) - static
	if err := d.driver.check(C.tandem_cuda_set_function_attribute(d.ctx, k.f, C.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most), "cuFuncSetAttribute", "kernel %s: allow %d bytes of shared memory", name, most); err != nil {
		return nil, err
	}
	var size C.size_t
	if C.tandem_cuda_parameter_size(d.ctx, k.f, &size) == 0 {
		k.args = int(size)
	}
	d.kernels[name] = k
	return k, nil
}

// argumentBytes is the size of a kernel's argument: n bytes, and the tensor maps of its boxes.
func argumentBytes(g kernels.Grid, n int) int {
	boxes := 0
	for _, b := range g.Boxes {
		if b != (kernels.Box{}) {
			boxes++
		}
	}
	if boxes == 0 {
		return n
	}
	return (n+tensorMapAlign-1)/tensorMapAlign*tensorMapAlign + boxes*kernels.BoxBytes
}

// resolve says which kernel runs a launch, and how.
func (q *Queue) resolve(l kernels.Launch) (*kernel, kernels.Grid, error) {
	if l.Op.CUDA == nil {
		return nil, kernels.Grid{}, fmt.Errorf("cuda: %s: the operation has no CUDA kernel", l.Op.Name)
	}
	g := l.Op.CUDA(q.dev.card.GPU, unsafe.Pointer(&l.Args[0]))
	if g == (kernels.Grid{}) {
		return nil, g, fmt.Errorf("cuda: %s: there is no CUDA kernel for these arguments: CUDA stores weights and activations as bfloat16", l.Op.Name)
	}
	name := g.Kernel
	if name == "" {
		name = l.Op.Name
	}
	k := q.kernels[name]
	if k == nil {
		var err error
		if k, err = q.dev.kernel(name); err != nil {
			return nil, g, err
		}
		if k.args >= 0 && k.args != argumentBytes(g, len(l.Args)) {
			return nil, g, fmt.Errorf("cuda: kernel %s takes %d bytes of arguments, %s gives %d: the structs in .cu and .go differ", name, k.args, l.Op.Name, len(l.Args))
		}
		q.kernels[name] = k
	}
	if g.Shared > q.dev.card.GPU.Shared {
		return nil, g, fmt.Errorf("cuda: kernel %s: a block wants %d bytes of shared memory, %s gives %d", name, g.Shared, q.dev.card.Name, q.dev.card.GPU.Shared)
	}
	return k, g, nil
}
