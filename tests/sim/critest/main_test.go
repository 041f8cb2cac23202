// Package critest names the CRI validation suite, so that this module's go.sum covers all that the
// suite's own test binary imports. Nothing here runs: tests/sim/critest.py builds that binary.
package critest

import (
	_ "sigs.k8s.io/cri-tools/pkg/benchmark"
	_ "sigs.k8s.io/cri-tools/pkg/framework"
	_ "sigs.k8s.io/cri-tools/pkg/validate"
)
