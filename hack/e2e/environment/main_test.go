// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package environment tests what a container finds around itself, asserted from
// inside: network, names, files, volumes, rights and limits; what becomes of
// images that cannot be had; and what is left when a workload is gone.
package environment

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/managedworkload/managedworkload/hack/e2e/harness"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

// The flags of the shim of these tests.
const (
	clusterDNS     = "10.96.0.10"
	nodeNameserver = "192.0.2.53"
	nodeResolvConf = "nameserver " + nodeNameserver + "\nsearch node.test\noptions timeout:1\n"
	// Bounds that are no hindrance to the workloads.
	maxMemory  = 512 << 30
	maxPids    = 40000
	podMaxPids = 4000
)

var env *harness.Env

func TestMain(m *testing.M) {
	os.Exit(harness.WithSharedMounts(func() int { return run(m) }))
}

func run(m *testing.M) int {
	resolvConf, err := resolvConfFile()
	if err != nil {
		fmt.Fprintln(os.Stderr, "write a resolv.conf:", err)
		return 1
	}
	defer os.Remove(resolvConf) //nolint:errcheck // A temporary file.
	return harness.Run(m, &env, localstack.Options{ShimArgs: []string{
		"--cluster-dns=" + clusterDNS, "--cluster-domain=mw.test", "--resolv-conf=" + resolvConf,
		"--max-cpu=1000", "--max-memory=512Gi", fmt.Sprint("--max-pids=", maxPids), fmt.Sprint("--pod-max-pids=", podMaxPids),
		"--allowed-unsafe-sysctls=net.core.somaxconn",
	}})
}

func resolvConfFile() (string, error) {
	file, err := os.CreateTemp("", "mw-e2e-resolv-conf-")
	if err != nil {
		return "", err
	}
	_, err = file.WriteString(nodeResolvConf)
	return file.Name(), errors.Join(err, file.Close())
}
