# Thin: CMake and its presets do the work. Two commands are all that a fresh machine needs: make demo, make check.
# Every target first installs the Debian packages that it needs (tools/bootstrap), as root or through sudo; without either it
# prints their names.

.PHONY: release program debug static python install deb wheels docs train f1 demo check check-ecosystem check-arch coverage soak \
  bench fuzz format lint clean

# The program and the libraries.
release:
	@tools/bootstrap build
	@tools/build program

program:
	@tools/bootstrap build
	@tools/build program weir

debug:
	@tools/bootstrap build
	@tools/build debug

static:
	@tools/bootstrap build
	@tools/build static

# The Python package: PYTHONPATH=build/python python3 -c "import weir"
python:
	@tools/bootstrap python
	@tools/build program -DWEIR_PYTHON_MODULE=ON weir weir_package

# To /usr/local, or as PREFIX and DESTDIR say: the program, the libraries, their headers, weir.pc and what find_package needs.
install: release
	@DESTDIR=$(DESTDIR) cmake --install build --prefix $(or $(PREFIX),/usr/local)
	@[ -n "$(DESTDIR)" ] || ldconfig 2> /dev/null || true

# Debian packages in dist/: weir, libweir0, libweir-dev, python3-weir.
deb:
	@tools/bootstrap deb
	@tools/build deb
	@cd build-deb && cpack --config CPackConfig.cmake > cpack.log 2>&1 || { cat cpack.log; exit 1; }
	@ls dist/*.deb

# Wheels for any Linux in dist/: manylinux, x86-64 and aarch64.
wheels:
	@tools/bootstrap wheels
	@tools/wheels

# The documentation as a site: build-docs/html/index.html, with a search that needs no server.
docs:
	@tools/bootstrap docs
	@tools/docs

# The training example on the demo shop (docs/training.md): about two minutes.
train:
	@tools/bootstrap train
	@tools/build program -DWEIR_PYTHON_MODULE=ON weir weir_package
	@build/weir demo --dir build/shop --no-run > /dev/null
	@PYTHONPATH=build/python /usr/bin/python3 -B examples/train.py build/shop/shop.weir late=2 churn rating category
	@PYTHONPATH=build/python /usr/bin/python3 -B examples/labels.py build/planted
	@PYTHONPATH=build/python /usr/bin/python3 -B examples/links.py build/tastes
	@PYTHONPATH=build/python /usr/bin/python3 -B examples/mixed.py build/mixed
	@PYTHONPATH=build/python /usr/bin/python3 -B examples/prove_resume.py build/shop/shop.weir late=2 churn rating category

# The Formula 1 database end to end (docs/f1.md): make f1 DATA=FOLDER, the folder with its CSV files. On a GPU: DEVICE=cuda, and
# PYTHON=... for a Python whose torch knows the GPU.
f1:
	@[ -n "$(DATA)" ] || { echo "make f1 DATA=FOLDER: the folder with the database's CSV files; docs/f1.md says where to get them"; exit 2; }
	@tools/bootstrap train
	@tools/build program -DWEIR_PYTHON_MODULE=ON weir weir_package
	@PYTHONPATH=build/python $(or $(PYTHON),/usr/bin/python3) -B examples/f1/f1.py "$(DATA)" --out build/f1 --device $(or $(DEVICE),cpu)

demo: program
	@tools/demo build/weir

check:
	@tools/bootstrap check
	@tools/check

# What needs packages from PyPI: the wheel, DuckDB, PyTorch of today, the frameworks that people use. In a virtual environment.
check-ecosystem:
	@tools/bootstrap ecosystem
	@tools/check-ecosystem

# Which branches the tests take, by folder; WEIR_DUCKDB=LIBRARY counts DuckDB's as well.
coverage:
	@tools/bootstrap coverage
	@tools/coverage

# What takes too long for every check: ten thousand kills of a run, a day's steps, a million batches. SOAK_SHARE=0.01
# runs a hundredth of it.
soak:
	@tools/bootstrap check
	@tools/build release
	@tools/soak build/weir $(or $(SOAK_SHARE),1)

bench:
	@tools/bootstrap bench
	@tools/build program -DWEIR_BENCH=ON -DWEIR_PYTHON_MODULE=ON
	@/usr/bin/python3 -B bench/run.py

# Fuzzes every target for FUZZ_SECONDS each (60 by default).
fuzz:
	@tools/bootstrap fuzz
	@tools/build fuzz
	@tools/fuzz build-fuzz $(or $(FUZZ_SECONDS),60)

# The golden hashes on aarch64 and big-endian s390x, under qemu.
check-arch:
	@tools/bootstrap arch
	@tools/check-arch

format:
	@tools/bootstrap format
	@clang-format-14 -i $$(git ls-files '*.c' '*.h')

lint:
	@tools/bootstrap format
	@tools/bootstrap python
	@tools/lint

clean:
	rm -rf build build-* dist
