package cuda

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// An Image is what nvcc made of one .cu file for one kind of card.
type Image struct {
	Name    string // as in linear.sm_90a.cubin.gz
	Entries []string
	Data    []byte // compressed where the name ends in .gz
}

// Images are compiled kernels.
type Images struct {
	CUDA string // the version of the compiler, as in "13.0.88"; "" if there are no images
	List []Image
}

// Architectures that we compile for. An architecture with an a runs on its own compute capability only; PTX is compiled
// by the driver for any later card.
const (
	Hopper    = "sm_90a"
	Blackwell = "sm_100a"
	Later     = "compute_90"
)

//go:embed images
var embedded embed.FS

// Embedded are the images in this binary.
func Embedded() Images {
	dir, err := fs.Sub(embedded, "images")
	if err != nil {
		return Images{}
	}
	images, err := readImages(dir)
	if err != nil {
		panic(err) // the build wrote what it cannot read
	}
	return images
}

// readImages reads index.txt, whose first line is "cuda 13.0.88" and each other an image and its entries. Without one there
// are no images.
func readImages(dir fs.FS) (Images, error) {
	var images Images
	index, err := fs.ReadFile(dir, "index.txt")
	if err != nil {
		return images, nil
	}
	for lines := bufio.NewScanner(bytes.NewReader(index)); lines.Scan(); {
		words := strings.Fields(lines.Text())
		switch {
		case len(words) == 0:
		case words[0] == "cuda" && len(words) == 2:
			images.CUDA = words[1]
		default:
			data, err := fs.ReadFile(dir, words[0])
			if err != nil {
				return images, fmt.Errorf("cuda: images: %w", err)
			}
			images.List = append(images.List, Image{words[0], words[1:], data})
		}
	}
	return images, nil
}

// String tells what is there.
func (m Images) String() string {
	if len(m.List) == 0 {
		return "no CUDA kernels"
	}
	var archs []string
	entries := map[string]bool{}
	size := 0
	for _, i := range m.List {
		if a := i.arch(); !slices.Contains(archs, a) {
			archs = append(archs, a)
		}
		for _, e := range i.Entries {
			entries[e] = true
		}
		size += len(i.Data)
	}
	slices.Sort(archs)
	return fmt.Sprintf("%d CUDA kernels for %s (nvcc %s, %s)", len(entries), strings.Join(archs, ", "), m.CUDA, gib(size))
}

func (i Image) arch() string {
	_, rest, _ := strings.Cut(i.Name, ".")
	arch, _, _ := strings.Cut(rest, ".")
	return arch
}

// text is the image as the driver takes it, which for PTX means that it ends in a zero.
func (i Image) text() ([]byte, error) {
	data := i.Data
	if strings.HasSuffix(i.Name, ".gz") {
		r, err := gzip.NewReader(bytes.NewReader(data))
		if err == nil {
			data, err = io.ReadAll(r)
		}
		if err != nil {
			return nil, fmt.Errorf("cuda: image %s: %w", i.Name, err)
		}
	}
	return append(data[:len(data):len(data)], 0), nil
}

// choose takes the images that run on a card.
func (m Images) choose(c Card) ([]Image, error) {
	arch := Later
	switch cc := [2]int{c.GPU.Major, c.GPU.Minor}; {
	case cc == [2]int{9, 0}:
		arch = Hopper
	case cc == [2]int{10, 0}:
		arch = Blackwell
	case c.GPU.Major < 9:
		return nil, none(fmt.Errorf("cuda: %s has compute capability %d.%d; the kernels want 9.0 (H100) or later", c.Name, c.GPU.Major, c.GPU.Minor))
	}
	if len(m.List) == 0 {
		return nil, none(fmt.Errorf("cuda: this binary was built without CUDA kernels, which %s would want: build it where nvcc or its wheels can be had (make kernels)", c.Name))
	}
	var chosen []Image
	for _, i := range m.List {
		if i.arch() == arch {
			chosen = append(chosen, i)
		}
	}
	if len(chosen) == 0 {
		return nil, none(fmt.Errorf("cuda: this binary has no kernels for %s: it wants %s", c.Name, arch))
	}
	return chosen, nil
}

// tooOld says that a driver knows less than the compiler assumed: a driver runs the images of its own major version of
// CUDA and of those before, PTX those of its own version and before.
func (m Images) tooOld(c Card) bool {
	var want [2]int
	for i, s := range strings.SplitN(m.CUDA, ".", 3) {
		if i < 2 {
			want[i], _ = strconv.Atoi(s)
		}
	}
	return slices.Compare(c.driverVersion[:], want[:]) < 0
}
