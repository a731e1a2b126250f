// The tools that check the chart, at pinned versions. They are built together, so that shared packages are built once.
// `tests/tools/chart/install` builds them. Go works out the versions of all other modules from these, and `go.sum` pins every byte.
module handbill.invalid/chart-tools

go 1.26.0

tool (
	github.com/helm-unittest/helm-unittest/cmd/helm-unittest
	helm.sh/helm/v3/cmd/helm
)

require (
	github.com/helm-unittest/helm-unittest v1.1.2
	helm.sh/helm/v3 v3.22.0
)

// Copied from helm-unittest's own go.mod, since Go ignores the replacements of dependencies.
replace github.com/vmware-labs/yaml-jsonpath v0.3.2 => github.com/helm-unittest/yaml-jsonpath v0.4.0
