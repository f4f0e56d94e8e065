# Thin: CMake and its presets do the work. Two commands are all that a fresh machine needs: make demo, make check.

.PHONY: release debug python train demo check soak bench static fuzz check-arch format lint clean

release:
	@tools/bootstrap build
	@cmake --preset release > build.log 2>&1 || { cat build.log; rm -f build.log; exit 1; }
	@rm -f build.log
	@cmake --build build

# The Python package: PYTHONPATH=build/python python3 -c "import weir"
python:
	@tools/bootstrap python
	@$(MAKE) --no-print-directory release

# The training example on the demo shop (docs/training.md): about two minutes.
train:
	@tools/bootstrap train
	@$(MAKE) --no-print-directory release
	@build/weir demo --dir build/shop --no-run > /dev/null
	@PYTHONPATH=build/python /usr/bin/python3 -B examples/train_shop.py build/shop
	@PYTHONPATH=build/python /usr/bin/python3 -B examples/prove_resume.py build/shop

debug:
	@tools/bootstrap build
	@cmake --preset debug
	@cmake --build build-debug

demo: release
	@tools/demo build/weir

check:
	@tools/bootstrap check
	@tools/check

# What takes too long for every check: ten thousand kills of a run, a day's steps, a million batches. SOAK_SHARE=0.01
# runs a hundredth of it.
soak:
	@tools/bootstrap check
	@$(MAKE) --no-print-directory release
	@tools/soak build/weir $(or $(SOAK_SHARE),1)

bench:
	@tools/bootstrap bench
	@$(MAKE) --no-print-directory release
	@/usr/bin/python3 -B bench/run.py

static:
	@tools/bootstrap build
	@cmake --preset static
	@cmake --build build-static

# Fuzzes every target for FUZZ_SECONDS each (60 by default).
fuzz:
	@tools/bootstrap fuzz
	@cmake --preset fuzz
	@cmake --build build-fuzz
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
	@tools/bootstrap build
	@tools/lint

clean:
	rm -rf build build-*
