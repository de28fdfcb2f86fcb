package cuda

/*
#cgo linux LDFLAGS: -ldl
#cgo noescape tandem_cuda_launch
#cgo nocallback tandem_cuda_launch
#cgo nocallback tandem_cuda_launch_graph
#cgo nocallback tandem_cuda_copy
#cgo nocallback tandem_cuda_record
#cgo nocallback tandem_cuda_wait_event
#cgo nocallback tandem_cuda_wait
#include <stdlib.h>
#include "driver.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"
)

// Library is the driver as it is installed with a card.
const Library = "libcuda.so.1"

// ErrNone says that there is no card that this binary can use: no driver, no card, none of ours, or no kernels for it.
var ErrNone = errors.New("no CUDA device that can be used")

// An Error is a call of the driver that failed.
type Error struct {
	Doing string // and with what
	Call  string // the driver's function
	Code  int
	Name  string // as in CUDA_ERROR_OUT_OF_MEMORY
	Text  string // the driver's words
}

func (e *Error) Error() string {
	return fmt.Sprintf("cuda: %s: %s: %s (%d): %s", e.Doing, e.Call, e.Name, e.Code, e.Text)
}

// A driver is a library that has been opened.
type driver struct {
	file  string
	table *C.tandem_cuda_driver
}

func openDriver(file string) (*driver, error) {
	d := &driver{file: file, table: (*C.tandem_cuda_driver)(C.calloc(1, C.sizeof_tandem_cuda_driver))}
	name := C.CString(file)
	defer C.free(unsafe.Pointer(name))
	if why := C.tandem_cuda_load(d.table, name); why != nil {
		defer C.free(unsafe.Pointer(why))
		d.free()
		return nil, fmt.Errorf("cuda: open the driver: %s", C.GoString(why))
	}
	return d, nil
}

// free forgets the functions. The library stays: drivers do not bear being closed.
func (d *driver) free() { C.free(unsafe.Pointer(d.table)) }

// check is nil where a call succeeded, and what was being done where not.
func (d *driver) check(r C.CUresult, call, format string, args ...any) error {
	if r == 0 {
		return nil
	}
	return d.fail(r, call, fmt.Sprintf(format, args...))
}

func (d *driver) fail(r C.CUresult, call, doing string) *Error {
	return &Error{
		Doing: doing,
		Call:  call,
		Code:  int(r),
		Name:  C.GoString(C.tandem_cuda_error_name(d.table, r)),
		Text:  C.GoString(C.tandem_cuda_error_text(d.table, r)),
	}
}

func (d *driver) emulated() bool { return C.tandem_cuda_is_emulated(d.table) != 0 }

// version is the CUDA that the driver is for, as in 13.0.
func (d *driver) version() (major, minor int, err error) {
	var v C.int
	err = d.check(C.tandem_cuda_version(d.table, &v), "cuDriverGetVersion", "ask for the driver's version")
	return int(v) / 1000, int(v) % 1000 / 10, err
}

// gib is a number of bytes as people say it.
func gib(bytes int) string {
	if bytes < 1<<30 {
		return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
}
