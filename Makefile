# The front door. `make demo` and `make test` install what is missing, say what they do, and skip what is
# already done on the next run.
.PHONY: help demo serve test test-all build build-bench grammar install install-demo format lint bench dist deb build-report clean

# CUDA_ARCHITECTURES=90a builds for that GPU, whatever this machine shows; CUDA=OFF builds without.
settings := $(if $(CUDA_ARCHITECTURES),-DGRAFT_CUDA=ON "-DCMAKE_CUDA_ARCHITECTURES=$(CUDA_ARCHITECTURES)") $(if $(CUDA),-DGRAFT_CUDA=$(CUDA))
# What the demo does not run is not compiled for it, nor kernels for other processors, and all but the kernels is
# optimised less, what runs at the start or once a request not at all, until `make build` was asked for once.
parts := $(if $(wildcard build/release/with-all),,-DGRAFT_PROFILE=OFF -DGRAFT_CLUSTER=OFF -DGRAFT_CPU_ISAS=native "-DGRAFT_OPTIMISE=-O1;-DNDEBUG" -DGRAFT_OPTIMISE_COLD=-O0)

help:
	@echo "make demo          build, serve the bundled model with its eight adapters, one batch, answers side by side;"
	@echo "                   then a page of text becomes an adapter, which is asked about it"
	@echo "make serve         the same server, kept up on port $(or $(PORT),8000); WEIGHTS=int4 serves codes of 4 bits"
	@echo "make test          build and run the checks (what CI runs); docs/inside/checks.md says which"
	@echo "make test-all      those and the long ones: at most an hour"
	@echo "make build         the release binary, build/release/graft, and what make grammar builds"
	@echo "make build-bench   the program that measures kernels, steps and loads, build/release/graft-bench"
	@echo "make grammar       build/grammar/libgraft_grammar.so, for answers in a given form (response_format)"
	@echo "make bench         the figures of docs/benchmarks.md on this machine"
	@echo "make dist          an archive that runs on other machines, build/dist/graft-VERSION-linux-ARCH.tar.zst"
	@echo "make deb           a Debian package"
	@echo "make build-report  what took how long in the last build; BUILD=dev names its folder"
	@echo "make format        clang-format every source file"
	@echo "make clean         remove build/"
	@echo "CUDA_ARCHITECTURES=90a builds demo, serve and build for that GPU, seen or not; CUDA=OFF for the CPU alone"

install:
	@tools/install.sh build

install-demo:
	@tools/install.sh demo

build: install
	@mkdir -p build/release && touch build/release/with-all
	@tools/build.sh release graft $(settings)
	@tools/grammar.sh

build-bench: install
	@mkdir -p build/release && touch build/release/with-all
	@tools/build.sh release graft-bench $(settings)

grammar:
	@tools/install.sh grammar

demo: install-demo
	@tools/build.sh release graft $(settings) $(parts)
	@python3 tools/demo.py

serve: install-demo
	@tools/build.sh release graft $(settings) $(parts)
	@exec build/release/graft serve --model demo/base --adapters demo/adapters --port $(or $(PORT),8000) $(if $(WEIGHTS),--weights $(WEIGHTS))

test:
	@tools/install.sh test
	@python3 tools/run_tests.py $(STAGES)

test-all:
	@tools/install.sh test-all
	@python3 tools/run_tests.py --all $(STAGES)

lint:
	@tools/install.sh test-all
	@python3 tools/run_tests.py lint

bench: build-bench
	@bench/cpu.sh

dist:
	@tools/install.sh dist
	@tools/dist.sh

deb:
	@tools/install.sh dist
	@tools/deb.sh

build-report:
	@python3 tools/build_report.py build/$(or $(BUILD),release)

format:
	@tools/install.sh test
	@git ls-files 'src/*.h' 'src/*.cc' 'src/*.cu' 'src/*.cuh' | xargs build/venv/bin/clang-format -i

clean:
	rm -rf build
