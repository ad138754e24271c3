# The front door. `make demo` and `make test` install what is missing, say what they do, and skip what is
# already done on the next run.
.PHONY: help demo serve test build install format bench clean

help:
	@echo "make demo    build, serve the bundled model with its eight adapters, one batch, answers side by side"
	@echo "make serve   the same server, kept up on port $(or $(PORT),8000)"
	@echo "make test    build and run every check (what CI runs)"
	@echo "make build   the release binary, build/release/graft"
	@echo "make bench   the figures of docs/benchmarks.md on this machine"
	@echo "make format  clang-format every source file"
	@echo "make clean   remove build/"

install:
	@tools/install.sh build

build: install | build/.dir
	@echo "== building the release binary (build/release/graft)"
	@test -f build/release/build.ninja || cmake --preset release > build/release-configure.log 2>&1 || (cat build/release-configure.log; exit 1)
	@cmake --build --preset release --target graft

demo: build
	@python3 tools/demo.py

serve: build
	@exec build/release/graft serve --model demo/base --adapters demo/adapters --port $(or $(PORT),8000)

test:
	@tools/install.sh test
	@python3 tools/run_tests.py $(STAGES)

bench: build
	@bench/cpu.sh

format:
	@git ls-files 'src/*.h' 'src/*.cc' 'src/*.cu' 'src/*.cuh' | xargs clang-format -i

clean:
	rm -rf build

build/.dir:
	@mkdir -p build && touch $@
