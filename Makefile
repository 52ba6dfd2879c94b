# Copyright The ManagedWorkload Authors.
# SPDX-License-Identifier: Apache-2.0

SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
# What make image builds, with VERSION as the tag. Unless VERSION is given or a tag of git,
# the image is also tagged devel, as config/default has it between releases.
IMAGE ?= managedworkload.dev/managedworkload
IMAGE_TAGS = $(VERSION) $(if $(filter file,$(origin VERSION)),$(if $(RELEASED),,$(filter-out $(VERSION),devel)))
REVISION = $(shell git rev-parse HEAD 2>/dev/null)
RELEASED = $(filter $(VERSION),$(shell git describe --tags --exact-match 2>/dev/null))
PLATFORMS ?= linux/amd64,linux/arm64
# What writes the SBOM. BuildKit's default is a tag that moves.
SBOM_SCANNER := docker/buildkit-syft-scanner:1.12.0
# One way to build for tools, tests and linters, so that they share what is compiled. What
# debuggers need is an eighth of what it costs.
export GOFLAGS := $(strip -trimpath -gcflags=all=-dwarf=false $(GOFLAGS))
export CGO_ENABLED := 0
# Pinned tools are built here once per version; several trees may share a folder.
export MW_TOOLS_DIR ?= $(CURDIR)/bin
# The state folder of the demo. It stays short: sockets lie in it.
DEMO_STATE ?= /var/tmp/mw-demo
# The first seed and the number of scenarios of make conformance, and the seed and
# the number of cases of make conformance-record; REPLAY= plays the scenario of a
# file instead.
SEED ?= 1
N ?= 2000
REPLAY ?=
# Passed on to every go test, such as TESTFLAGS='-run TestKill -v'.
TESTFLAGS ?=
# RACE= leaves the race detector out, which needs a C compiler.
RACE ?= -race
E2E_TIMEOUT ?= 45m
E2E_PARALLEL ?= 2
# What make test-cgroup2 runs, and the tests (a regular expression) of it.
PACKAGES ?= ./runtime/podcgroup ./runtime/poddir ./hack/e2e/environment ./hack/e2e/lifecycle
RUN ?= Slice|Cgroup|Paused|Resize|Resources|BestEffort|NodeBounds|OutOfMemory|NothingIsLeft|TriggerTermination$$|GraceForced
# Passed on to hack/twin, such as TWINFLAGS='-run liveness -v'.
TWINFLAGS ?=

ASSETS := etcd kube-apiserver kubectl
NODE := kubelet kube-controller-manager kube-scheduler
# A runc that can use user namespaces, for the tests of them. Containers run with Debian's otherwise.
USERNS := runc-userns
RUNTIME := containerd containerd-shim-runc-v2 ctr
TOOL := hack/tools/build.sh
# Notes what the steps of .ci/run take.
STEP := hack/tools/step.sh
# Where memory is not short, compilers, linters and what runs beside them collect less garbage.
COMPILE := GOGC=$${GOGC:-$$(hack/tools/gogc.sh 2/cpu)}
# golangci-lint runs the analyzers of go vet.
GOTEST := go test -vet=off
GENERATED := api/v1alpha1/zz_generated.deepcopy.go config/crd/bases config/kustomize config/rbac/role.yaml docs/fields.md docs/flags.md docs/metrics.md
ROOT_ON_LINUX := $(shell [ "$$(uname -s)" = Linux ] && [ "$$(id -u)" = 0 ] && echo yes)

##@ General

.PHONY: help
help: ## Show this help.
	@awk 'BEGIN {FS = ":.*##"; printf "Usage: make TARGET\n"} \
		/^[a-z0-9-]+:.*##/ {printf "  %-19s %s\n", $$1, $$2} \
		/^##@/ {printf "\n%s\n", substr($$0, 5)}' $(MAKEFILE_LIST)

##@ Build

.PHONY: build
build: ## Build the static program bin/managedworkload and the kubectl plugin, under both of its names.
	go build -buildvcs=false -ldflags "-s -w -X main.version=$(VERSION)" -o bin/managedworkload .
	go build -buildvcs=false -ldflags "-s -w -X main.version=$(VERSION)" -o bin/kubectl-managedworkload ./cli/cmd/kubectl-managedworkload
	cp bin/kubectl-managedworkload bin/kubectl-mw
	for name in mw managedworkload; do ln -sfn kubectl-$$name bin/kubectl_complete-$$name; done

.PHONY: image
image: ## Build IMAGE:VERSION (and :devel without a tag) with an SBOM and its provenance into bin/image.tar; PUSH=1 pushes it instead.
	@mkdir -p bin
	docker buildx build --build-arg VERSION=$(VERSION) --platform $(PLATFORMS) \
		--sbom=generator=$(SBOM_SCANNER) --provenance=mode=max $(addprefix --label org.opencontainers.image.revision=,$(REVISION)) \
		$(addprefix -t $(IMAGE):,$(IMAGE_TAGS)) $(if $(PUSH),--push,--output type=oci,dest=bin/image.tar) .

.PHONY: generate
generate: ## Generate the deep copies of the API types.
	@$(TOOL) controller-gen
	"$$MW_TOOLS_DIR/controller-gen" object:headerFile=hack/boilerplate/boilerplate.go.txt paths=./api/...

.PHONY: manifests
manifests: ## Generate the CRDs, the manager's role and what kustomize has to know.
	@$(TOOL) controller-gen
	"$$MW_TOOLS_DIR/controller-gen" crd:generateEmbeddedObjectMeta=true paths=./api/v1alpha1 output:crd:dir=config/crd/bases
	go run ./hack/crdtrim config/crd/bases/*.yaml
	go run ./hack/kustomizegen config/kustomize
	"$$MW_TOOLS_DIR/controller-gen" rbac:roleName=managedworkload-manager paths=./controllers/... output:rbac:dir=config/rbac

.PHONY: docs
docs: ## Generate docs/fields.md, docs/flags.md and docs/metrics.md from the table of template fields, the flags and the sources.
	text=$$(go run ./hack/fieldsdoc) && printf '%s\n' "$$text" > docs/fields.md
	text=$$(go run ./hack/metricsdoc) && printf '%s\n' "$$text" > docs/metrics.md
	go test -count=1 -run TestFlagsAreDocumented . -args -update

.PHONY: clean
clean: ## Remove what was built, but not the pinned tools.
	rm -rf bin/managedworkload bin/kubectl-managedworkload bin/kubectl-mw bin/kubectl_complete-* bin/image.tar bin/localstack bin/testprogram bin/timeline-*.png

##@ Check

.PHONY: check
check: ## Build, lint and run the unit tests that need no API server: before each commit.
	go build ./...
	@$(MAKE) --no-print-directory lint
	$(GOTEST) -short -timeout 5m $(TESTFLAGS) $$(go list ./... | grep -v /hack/e2e)

.PHONY: verify
verify: generate manifests docs ## Regenerate and fail on a difference; vet, lint, tidy, kustomize.
	@new=$$(git ls-files --others --exclude-standard -- $(GENERATED)); \
	if [ -n "$$new" ] || ! git --no-pager diff --exit-code -- $(GENERATED); then \
		echo "Generated files differ from what is committed: $$new" >&2; exit 1; fi
	go mod tidy -diff
	cd hack/conformance && "$(CURDIR)/$(STEP)" "vet of hack/conformance" go vet ./...
	$(GOTEST) -short ./config
	@$(MAKE) --no-print-directory lint

.PHONY: lint
lint: ## Run golangci-lint.
	@$(TOOL) golangci-lint
	GOGC=$${GOGC:-$$(hack/tools/gogc.sh 16)} $(STEP) lint "$$MW_TOOLS_DIR/golangci-lint" run ./...

##@ Test

.PHONY: test
ifeq ($(ROOT_ON_LINUX),yes)
test: test-unit conformance test-e2e ## Run all tests. What needs real containers needs root on Linux.
else
test: test-e2e conformance test-unit
endif

.PHONY: test-unit
test-unit: assets race-needs promtool dbus ## Run everything but e2e, with the race detector, against a real API server.
	$(COMPILE) CGO_ENABLED=$(if $(RACE),1,0) KUBEBUILDER_ASSETS="$${KUBEBUILDER_ASSETS:-$$MW_TOOLS_DIR}" $(STEP) "unit tests" \
		$(GOTEST) $(RACE) -timeout 20m $(TESTFLAGS) $$(go list ./... | grep -v /hack/e2e)

.PHONY: conformance
conformance: ## Compare with the kubelet's own code in N random scenarios from SEED, or REPLAY=file.
	@echo "Building the kubelet's runtime manager: two or three minutes when nothing is cached" >&2
	@mkdir -p bin
	export $(COMPILE); cd hack/conformance && \
		"$(CURDIR)/$(STEP)" "build of the comparison" go test -c -o "$(CURDIR)/bin/conformance.test" .
	@# The go command's cache of results does not see files of another module, which these tests read.
	cd hack/conformance && go test -count=1 ./mutants ./podvalidation
	$(STEP) conformance bin/conformance.test -test.run Scenarios -test.timeout 60m -grpc -seed $(SEED) -n $(N) \
		$(if $(REPLAY),-replay "$(REPLAY)") -output bin

.PHONY: conformance-record
conformance-record: ## Record N new cases of each kind from the kubelet's functions, by SEED, and replay them.
	@echo "Building the kubelet: five minutes or more when nothing is cached" >&2
	cd hack/conformance && go run ./record -seed $(SEED) -n $(N)

.PHONY: conformance-mutants
conformance-mutants: ## Show that make conformance finds deliberate mistakes in the shim.
	cd hack/conformance && go run ./mutants

.PHONY: mutants
mutants: assets ## Show that unit tests find deliberate mistakes around the kill core. RUN= for some of them.
	KUBEBUILDER_ASSETS="$${KUBEBUILDER_ASSETS:-$$MW_TOOLS_DIR}" go run ./hack/mutants $(if $(filter command line,$(origin RUN)),-run '$(RUN)')

.PHONY: test-e2e
ifeq ($(ROOT_ON_LINUX),yes)
test-e2e: assets runtime dbus promtool ## Run the tests on real containers, E2E_PARALLEL packages at a time: most of their time they wait.
	@hack/tools/debian.sh userns
	@$(TOOL) $(NODE) $(USERNS)
	$(COMPILE) go build -buildvcs=false -o bin/e2e/ . ./hack/testprogram ./hack/localstack/cmd/registry
	@# The longest first: the end waits for no other. GOGC: garbage collection is a sixth of what the API servers cost.
	KUBEBUILDER_ASSETS="$${KUBEBUILDER_ASSETS:-$$MW_TOOLS_DIR}" MW_PROGRAMS="$(CURDIR)/bin/e2e" GOGC=300 $(STEP) e2e \
		$(GOTEST) -count=1 -p $(E2E_PARALLEL) -timeout $(E2E_TIMEOUT) $(TESTFLAGS) \
		./hack/e2e/fleet $$(go list ./hack/e2e/... | grep -v /e2e/fleet$$ | sort -r)
else
test-e2e:
	@echo "Skipping e2e: real containers need root on Linux" >&2
endif

.PHONY: twin
ifeq ($(ROOT_ON_LINUX),yes)
twin: assets runtime ## Give the same templates to a real kubelet and to the shim, and compare. SEED= for others.
	@$(TOOL) kubelet kube-controller-manager
	go run ./hack/twin --seed $(SEED) --keep bin/twin-$(SEED) $(TWINFLAGS)
else
twin:
	@echo "A kubelet and real containers need root on Linux" >&2; exit 1
endif

.PHONY: faults
ifeq ($(ROOT_ON_LINUX),yes)
faults: SEED := $(if $(filter file,$(origin SEED)),1,$(SEED))
faults: N := $(if $(filter file,$(origin N)),100,$(N))
faults: assets runtime ## Make N faults from SEED while workloads start and end, and check what their containers saw.
	go run ./hack/faults --seed $(SEED) --n $(N) --keep bin/faults-$(SEED)
else
faults:
	@echo "Faults on real containers need root on Linux" >&2; exit 1
endif

.PHONY: test-cgroup2
ifeq ($(ROOT_ON_LINUX),yes)
test-cgroup2: assets runtime ## Run the tests that cgroups matter to on v2, with both drivers, in a machine of its own.
	for driver in cgroupfs systemd; do hack/vm/cgroup2.sh -d $$driver -r '$(RUN)' $(PACKAGES); done
else
test-cgroup2:
	@echo "Skipping: real containers need root on Linux" >&2
endif

.PHONY: test-logind
ifeq ($(ROOT_ON_LINUX),yes)
test-logind: ## Shut a machine of its own down, with a real systemd, dbus and logind, and check who waits for whom.
	hack/vm/cgroup2.sh -l -r RealLogind ./runtime/shutdown
else
test-logind:
	@echo "Skipping: a machine of its own needs root on Linux" >&2
endif

.PHONY: bench
bench: assets runtime ## Measure start, deletion, planning and idling; see docs/performance.md.
	go test -run '^$$' -bench . -benchmem ./runtime/plan
	go run ./hack/bench

.PHONY: bench-controllers
bench-controllers: ## Measure a reconciliation and a report of a workload on 5,000 nodes; see docs/performance.md.
	go test -run '^$$' -bench . -benchmem ./controllers/workload

# The size of make bench-fleet, and further flags of it and of make bench-memory, such as
# FLEETFLAGS='-watch-per-node -o json' and MEMORYFLAGS='-mode pages'.
NODES ?= 250
WORKLOADS ?= 10
FLEETFLAGS ?=
MEMORYFLAGS ?=

.PHONY: bench-fleet
bench-fleet: assets ## Measure the manager with NODES simulated nodes and WORKLOADS on each; see docs/performance.md.
	@$(TOOL) kube-controller-manager # for FLEETFLAGS=-objects
	go run ./hack/benchfleet -nodes $(NODES) -workloads $(WORKLOADS) $(FLEETFLAGS)

.PHONY: bench-memory
bench-memory: build ## Measure the manager's memory for 100,000 NodeWorkloads, and fail above 1 GiB.
	go run ./hack/benchmemory $(MEMORYFLAGS)

##@ Try it

.PHONY: accept
accept: assets ## Say what is accepted, ignored and refused of the Pod templates in DIR, a file each; -o json by ACCEPTFLAGS.
	@$(TOOL) kube-controller-manager
	KUBEBUILDER_ASSETS="$${KUBEBUILDER_ASSETS:-$$MW_TOOLS_DIR}" go run ./hack/accept -dir '$(DIR)' $(ACCEPTFLAGS)

.PHONY: demo
demo: demo-needs ## Show kills and their records on a real stack, and leave it up.
	DEMO_STATE="$(DEMO_STATE)" hack/demo/demo.sh

.PHONY: demo-fleet
demo-fleet: demo-needs ## Apply, notice and revert a bad image on five nodes, then roll a good one out; leave it up.
	DEMO_STATE="$(DEMO_STATE)" hack/demo/fleet.sh

.PHONY: demo-needs
demo-needs:
	@echo "Building what is missing: fifteen minutes of a processor the first time, a few seconds later on" >&2
	@$(TOOL) kubectl kube-controller-manager crictl
	@$(MAKE) --no-print-directory assets runtime build
	go build -buildvcs=false -o bin/ ./hack/localstack/cmd/localstack ./hack/testprogram

.PHONY: demo-down
demo-down: ## Take the stack of a demo down, in DEMO_STATE.
	go run ./hack/localstack/cmd/localstack down --state "$(DEMO_STATE)"

.PHONY: look-timeline
look-timeline: ## Show the page of kubectl mw timeline in a browser: bin/timeline-light.png and bin/timeline-dark.png.
	hack/tools/debian.sh browser
	@mkdir -p bin
	@profile=$$(mktemp -d) && trap 'rm -rf "$$profile"' EXIT && for scheme in 0-dark 1-light; do \
		chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$$profile" --window-size=1500,1900 \
			--blink-settings=preferredColorScheme=$${scheme%-*} --screenshot="bin/timeline-$${scheme#*-}.png" \
			"file://$(CURDIR)/cli/timeline/testdata/sample.html" 2>/dev/null || exit 1; done
	@ls bin/timeline-*.png

##@ Tools

.PHONY: tools
tools: assets runtime ## Build every pinned tool, and install what comes from Debian.
	@hack/tools/debian.sh userns
	@$(TOOL) controller-gen golangci-lint $(NODE) $(USERNS)

.PHONY: assets
assets: ## Build etcd, kube-apiserver and kubectl, unless KUBEBUILDER_ASSETS has them.
	@for name in $(ASSETS); do \
		if [ ! -x "$${KUBEBUILDER_ASSETS:-}/$$name" ]; then $(TOOL) $$name; fi; done
ifeq ($(ROOT_ON_LINUX),yes)
	@$(MAKE) --no-print-directory runtime
endif

.PHONY: runtime
runtime: ## Build containerd; install runc, CNI plugins and iptables if root, or name what is missing.
	@hack/tools/debian.sh runtime
	@$(TOOL) $(RUNTIME)

.PHONY: promtool
promtool:
	@hack/tools/debian.sh promtool

.PHONY: dbus
ifeq ($(ROOT_ON_LINUX),yes)
dbus:
	@hack/tools/debian.sh dbus
else
dbus:
	@command -v dbus-daemon >/dev/null || echo "There is no dbus-daemon: tests that need a bus are skipped" >&2
endif

.PHONY: race-needs
race-needs:
	@if [ -n "$(RACE)" ]; then hack/tools/debian.sh race; fi
