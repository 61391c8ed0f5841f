# The two commands are `make demo` and `make test`; `make help` lists the rest.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

JOBS ?= $(shell nproc)
CMAKE := .venv/bin/cmake
CTEST := .venv/bin/ctest -j $(JOBS)
PYTHON := .venv/bin/python
NVCC := $(firstword $(wildcard $(CUDA_HOME)/bin/nvcc) $(shell command -v nvcc) $(wildcard /usr/local/cuda/bin/nvcc))
GPU := $(shell nvidia-smi -L 2>/dev/null | grep -m 1 GPU)
TARGET := all
UNITED := OFF
KERNELS := ON
REACHED := OFF
WHEELS := cpu $(if $(NVCC),cuda)
SEED := $(or $(SEED),$(shell date +%s))
TIME ?= 300
FUZZ ?= emulated
PRESET ?= $(if $(and $(NVCC),$(GPU)),cuda,emulated)

.PHONY: help setup demo test fuzz lint lint-all sanitize docs docs-check cuda-check wheel wheel-check clean

help:  ## This list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */make \1\t/' | expand -t 20

setup:  ## Install what a build needs and is missing: distribution packages, .venv
	@tools/setup build

demo: setup  ## Build, then climb the softmax and the gemm ladder: on the GPU here, else in the emulator
	@$(MAKE) build/$(PRESET) TARGET=warpsmith UNITED=$(if $(filter emulated,$(PRESET)),ON,OFF)
	@build/$(PRESET)/warpsmith ladder softmax
	@build/$(PRESET)/warpsmith ladder gemm

test:  ## Build and run all tests, C++ and Python, with no GPU
	@tools/setup build test
	@$(MAKE) build/emulated
	@verified="$(VERIFIED)"; echo "test: C++ tests, verify shapes of: $$verified"; \
	  WARPSMITH_VERIFY="$$verified" $(CTEST) --preset emulated --output-junit tests.xml
	@echo "test: installing the Python package into .venv"
	@CXX=$${CXX:-c++} .venv/bin/uv pip install --quiet --python $(PYTHON) --no-build-isolation --no-deps --editable . \
	  --config-settings=cmake.define.WS_WHEEL_CUDA=OFF --config-settings=cmake.define.WS_UNITED=$(UNITED) \
	  --config-settings=cmake.define.CMAKE_COMPILE_WARNING_AS_ERROR=ON
	@echo "test: Python tests, pages and notebooks"
	@$(PYTHON) -m pytest -n $(JOBS) --dist loadfile --junitxml=build/emulated/python.xml

fuzz: setup  ## Broken arguments, result files and C calls for longer: make fuzz SEED=7 TIME=600; FUZZ=ci sanitizes them
	@$(MAKE) build/$(FUZZ) TARGET="warpsmith fuzz_test c_api_fuzz"
	@echo "fuzz: seed $(SEED), $(TIME) s each"
	@WARPSMITH_FUZZ_SEED=$(SEED) WARPSMITH_FUZZ_SECONDS=$(TIME) $(CTEST) --preset $(FUZZ) -R '^fuzz' --timeout 36000

lint:  ## Check style, names and the house's contracts; clang-tidy looks at what a change reaches
	@tools/setup build lint
	@$(MAKE) configure/emulated
	@tools/lint

lint-all:  ## The same, with clang-tidy on everything
	@tools/setup build lint
	@$(MAKE) configure/emulated
	@tools/lint --all

sanitize: setup  ## Run the C++ tests (no verify shapes) under ASan and UBSan; KERNELS=OFF: not those of kernels
	@$(MAKE) build/ci
	@echo "sanitize: C++ tests"
	@$(CTEST) --preset ci

docs:  ## Make the book, a site to read offline: build/docs/html/index.html
	@tools/setup build docs
	@$(MAKE) build/emulated TARGET="warpsmith libwarpsmith book_models"
	@PYTHONPATH=tools:python $(PYTHON) -m book.make

docs-check:  ## Make it, and look at every page in headless Chromium: links, console, widths, search, dark mode
	@tools/setup test
	@$(MAKE) docs
	@PYTHONPATH=python $(PYTHON) -m pytest -q tests/book
	@PYTHONPATH=tools:python $(PYTHON) -m book.check

cuda-check:  ## Compile every kernel for sm_80 or, if it needs that, sm_90a and look for spills; needs nvcc, no GPU
	@[[ -n "$(NVCC)" ]] || { echo "cuda-check: no nvcc on PATH, in CUDA_HOME or in /usr/local/cuda"; exit 1; }
	@tools/setup build cuda
	@$(MAKE) configure/emulated
	@$(MAKE) configure/cuda-check
	@echo "build: cuda-check"
	@$(WITHIN) $(CMAKE) --build --preset cuda-check -j $(JOBS) --target cuda_check || $(TIME_IS_UP)
	@$(MAKE) build/emulated TARGET=warpsmith
	@$(PYTHON) tools/check_spills.py build/emulated/warpsmith build/cuda-check

wheel:  ## Make dist/: the source distribution, a wheel for CPUs, and with nvcc one for GPUs too (WHEELS=cpu: not)
	@tools/setup build wheel $(filter cuda,$(WHEELS))
	@echo "wheel: the whole catalogue is compiled: $(WHEELS)"
	@$(PYTHON) tools/wheels.py build $(WHEELS)

wheel-check:  ## Make the wheel for CPUs, install it where there is nothing but pip, and call softmax
	@$(MAKE) wheel WHEELS=cpu
	@$(PYTHON) tools/wheels.py check

clean:  ## Remove what was built; .venv stays
	@rm -rf build dist

# UNITED=ON compiles the host's units in groups, as builds from nothing do: sooner done, later again after a change.
UNITE = $(if $(filter ON,$(UNITED)),-DWS_UNITED=ON)
# KERNELS=OFF sanitizes the host's code only, as CI does: half of the time.
SANITIZE = $(if $(filter ciOFF,$*$(KERNELS)),-DWS_SANITIZE_KERNELS=OFF)
# REACHED=ON, as CI has it: verify shapes of the families that a change reaches run, and nvcc compiles the kernels that
# it does.
VERIFIED = $(if $(filter ON,$(REACHED)),$$($(PYTHON) tools/reached.py --families),all)
CHECKED = $(if $(filter cuda-checkON,$*$(REACHED)),"-DWS_CHECKED=$$($(PYTHON) tools/reached.py)")

# LIMIT=900 ends cuda-check's compilations after so many seconds, as CI must on slow machines; what was done is checked.
WITHIN = $(if $(LIMIT),timeout --signal=INT $(LIMIT))
TIME_IS_UP = { [[ $$? == 124 ]] && echo "cuda-check: $(LIMIT) s were over: the last line above has how many steps were done"; }

# Configured once, but for what a change reaches; Ninja notices itself when a CMake file changes.
PRESETS := emulated ci cuda cuda-check release
.PHONY: $(PRESETS:%=configure/%) $(PRESETS:%=build/%)
$(PRESETS:%=configure/%): configure/%:
	@[[ -z "$(if $(CHECKED),anew)" && -f build/$*/build.ninja ]] || { echo "configure: $*"; $(CMAKE) --preset $* --log-level=WARNING $(UNITE) $(SANITIZE) $(CHECKED); }

$(PRESETS:%=build/%): build/%: configure/%
	@echo "build: $*"
	@$(CMAKE) --build --preset $* -j $(JOBS) --target $(TARGET)
