# Compiles kernels/*.cu with $(NVCC), a bin folder, into $(OUT); build.sh calls it from the root of the repository. Target
# all makes, install also copies to $(IMAGES), from where they become part of the binary.
#
#   x.sm_90a.cubin     H100, H200     x.sm_100a.cubin    B200     x.compute_90.ptx    whatever comes later
#
# Beside each lie its entries and, for a cubin, what ptxas and the disassembly say of every entry (.facts): kernel, card,
# registers, spilled bytes, static shared memory, HMMA and HGMMA instructions. Dynamic shared memory is what the launches of
# the Go side ask for: bench/shared.txt has it, and a test keeps it. x_sm90.cu is for Hopper alone; that ptxas has to wait for
# each of its products is a mistake there.

FLAGS := -I kernels --fmad=false --ftz=false --prec-div=true --prec-sqrt=true
STEMS := $(patsubst kernels/%.cu,%,$(wildcard kernels/*.cu))
EVERY := $(filter-out %_sm90,$(STEMS))
ALL   := $(STEMS:%=%.sm_90a.cubin) $(EVERY:%=%.sm_100a.cubin) $(EVERY:%=%.compute_90.ptx)

.DELETE_ON_ERROR:
.PHONY: all install
.SECONDARY:
all: $(ALL:%=$(OUT)/%.gz) $(OUT)/index.txt $(OUT)/ptxas.txt
install: all $(ALL:%=$(IMAGES)/%.gz) $(IMAGES)/index.txt

# An image is refused where ptxas says of wgmma that it put a fence where one was missing or let products wait for each other
# (C75xx), or that it left setmaxnreg out.
define cubin
$(OUT)/%.$(1).cubin: kernels/%.cu $(OUT)/compiler
	@echo "nvcc $$*.cu for $(1)"
	@$(NVCC)/nvcc $(FLAGS) -cubin -arch=$(1) -Xptxas -v -MMD -MT $$@ -MF $$@.d -o $$@ $$< 2>$$@.log || { cat $$@.log >&2; exit 1; }
	@! grep -E 'C75[0-9]{2}|instructions are serialized|setmaxnreg' $$@.log >&2

$(OUT)/%.$(1).cubin.facts: $(OUT)/%.$(1).cubin kernels/cuda/facts.sh
	@PATH=$(NVCC):$$$$PATH kernels/cuda/facts.sh $(1) $$< >$$@
endef
$(foreach card,sm_90a sm_100a,$(eval $(call cubin,$(card))))

$(OUT)/%.compute_90.ptx: kernels/%.cu $(OUT)/compiler
	@echo "nvcc $*.cu for compute_90"
	@$(NVCC)/nvcc $(FLAGS) -ptx -arch=compute_90 -MMD -MT $@ -MF $@.d -o $@ $<

$(OUT)/%.cubin.entries: $(OUT)/%.cubin.facts
	@cut -d ' ' -f 1 $< >$@

$(OUT)/%.ptx.entries: $(OUT)/%.ptx
	@sed -n 's/^\.visible \.entry \([A-Za-z0-9_]*\)(.*/\1/p' $< >$@

$(OUT)/%.gz: $(OUT)/%
	@gzip -9 -n -c $< >$@

# sources is touched when a file comes or goes.
$(OUT)/index.txt: $(ALL:%=$(OUT)/%.entries) $(OUT)/sources
	@(echo "cuda $(VERSION)"; for i in $(sort $(ALL)); do echo $$i.gz $$(cat $(OUT)/$$i.entries); done) >$@

$(OUT)/ptxas.txt: $(patsubst %,$(OUT)/%.facts,$(filter %.cubin,$(ALL))) $(OUT)/sources bench/shared.txt
	@(echo "# What nvcc $(VERSION) makes of every kernel; make kernels writes it, and a test holds it to the sources."; \
	(echo kernel card registers spilled static HMMA HGMMA; cat /dev/null $(filter %.facts,$^) | sort) | \
	awk 'FILENAME != "-" { dynamic[$$1 " " $$2] = $$3; next } \
	{ d = FNR == 1 ? "dynamic" : ($$1 " " $$2) in dynamic ? dynamic[$$1 " " $$2] : "?"; \
	printf "%-32s %-8s %9s %8s %7s %8s %6s %6s\n", $$1, $$2, $$3, $$4, $$5, d, $$6, $$7 }' bench/shared.txt -) >$@

$(IMAGES)/%: $(OUT)/%
	@cp $< $@

-include $(ALL:%=$(OUT)/%.d)
