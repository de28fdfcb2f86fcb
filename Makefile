# make build   bin/tandem
# make demo    a tiny Qwen3 learns two-digit addition by GRPO on the CPU, in minutes
# make demo-tools    another learns to have products worked out by a program, in the sandbox
# make test    everything that can be tested without a GPU
# make help    the rest

SHELL := /bin/bash
GO    ?= go
RUN   ?= runs/demo

export CGO_ENABLED := 1
export CGO_LDFLAGS := -L$(CURDIR)/build/native
export CGO_CFLAGS := -O2 -g -Wno-deprecated-declarations

# Packages whose goroutines share state.
RACE := ./kernels ./engine ./trainer ./trainer/run ./trainer/eval

# The sandbox's tests run programs with numpy and sympy where these can be had.
PYTHON_PACKAGES := numpy sympy

.PHONY: help build native kernels emu python demo demo-tools test test-long lint bench clean tools

help:
	@sed -n 's/^# //p' Makefile | sed '/^Packages/,$$d'
	@echo 'make kernels     compiles the CUDA kernels; bench/ptxas.txt keeps what came of them'
	@echo 'make test-long   soak tests and many schedules as well'
	@echo 'make bench       benchmarks; bench/LOG.md keeps the numbers'
	@echo 'make clean       removes bin and build'

tools:
	@command -v $(GO) >/dev/null || { echo 'make: go is not installed; see https://go.dev/doc/install (1.26 or newer)' >&2; exit 1; }
	@command -v cc >/dev/null || { echo 'make: a C compiler is not installed; install it with: apt-get install -y build-essential' >&2; exit 1; }

native: tools
	@tokenizer/native/build.sh build/native

# An interpreter with the packages on offer to programs in the sandbox; without it their tests skip.
build/venv/ready:
	@rm -rf build/venv && mkdir -p build
	@if python3 -m venv build/venv && build/venv/bin/python -m pip install --quiet --disable-pip-version-check $(PYTHON_PACKAGES); then \
		touch $@; \
	else \
		echo 'make: no Python with numpy and sympy: tests of them will skip; it takes python3-venv (apt-get install -y python3-venv) and PyPI' >&2; \
	fi

python: build/venv/ready

# The kernels for every card, in kernels/cuda/images. Without a CUDA compiler there are none, and a line says so.
kernels:
	@kernels/cuda/build.sh build/cuda install

# The driver of an emulated GPU, with every kernel in it, for tests.
emu: tools
	@kernels/emu/build.sh

build: native kernels
	@$(GO) build -o bin/tandem ./cmd/tandem

demo: build
	@rm -rf $(RUN)
	@bin/tandem train demo --run $(RUN) --expect-rise 0.25

demo-tools: RUN = runs/demo-tools
demo-tools: build
	@rm -rf $(RUN)
	@bin/tandem train demo-tools --run $(RUN) --expect-rise 0.25

lint: native
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$unformatted" ]; then echo "gofmt: $$unformatted" >&2; exit 1; fi
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

# $(PYTHON) names that interpreter, if it is there when a command runs.
PYTHON = $$(ls $(CURDIR)/build/venv/bin/python 2>/dev/null)

test: lint python kernels emu
	TANDEM_PYTHON=$(PYTHON) $(GO) test -timeout 30m ./...
	TANDEM_PYTHON=$(PYTHON) $(GO) test -timeout 30m -race -short $(RACE)

test-long: lint python kernels emu
	TANDEM_LONG=1 TANDEM_PYTHON=$(PYTHON) $(GO) test -timeout 300m ./...
	TANDEM_LONG=1 TANDEM_PYTHON=$(PYTHON) $(GO) test -timeout 300m -race $(RACE)

bench: native
	$(GO) test -run '^$$' -bench . -benchtime 1s ./...

# What a machine with a GPU and nothing else needs, for test-gpu and bench-gpu there.
gpu-bundle: build emu
	@bench/gpu/bundle.sh

test-gpu: gpu-bundle
	@build/gpu/test.sh

# The report goes to bench/results/, under the card's name.
bench-gpu: gpu-bundle
	@build/gpu/bench.sh && bench/gpu/keep.sh

clean:
	rm -rf bin build
