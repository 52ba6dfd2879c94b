// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"maps"
	"os"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/managedworkload/managedworkload/api/placement"
)

// terminal is how many characters a line has room for, and gap what kubectl puts between
// columns.
const terminal, gap = 120, 3

// columns are what kubectl get shows of a CRD without -o wide, after the name.
func columns(t *testing.T, plural string) []string {
	t.Helper()
	text, err := os.ReadFile("crd/bases/managedworkload.dev_" + plural + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(text, crd); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, column := range crd.Spec.Versions[0].AdditionalPrinterColumns {
		if column.Priority == 0 {
			names = append(names, column.Name)
		}
	}
	return names
}

// What kubectl get shows fits on a terminal, also of a large fleet in trouble, on nodes with
// the long names of a cloud. A column that is added here has to fit, too.
func TestColumnsFitOnATerminal(t *testing.T) {
	const awsNode = "ip-10-123-145-167.eu-central-1.compute.internal"
	tests := map[string]struct {
		plural, name string
		row          map[string]string
	}{
		"mw": {"managedworkloads", "node-local-dns-cache", map[string]string{
			"Desired": "5000", "Updated": "4999", "Ready": "4999", "Forced": "123456", "Age": "365d",
			"Status": "5000 nodes without a shim; 5000 nodes not responding",
		}},
		"nw with a long name": {"nodeworkloads", placement.NodeWorkloadName("node-local-dns-cache", awsNode), map[string]string{
			"Ready": "12/12", "Status": "CrashLoopBackOff", "Restarts": "12345", "Last-Kill": "365d", "Age": "365d",
		}},
		"nw with a long status": {"nodeworkloads", placement.NodeWorkloadName("fluent-bit", "worker-eu-central-1-042"), map[string]string{
			"Ready": "12/12", "Status": "Running, waiting: ImagePullBackOff", "Restarts": "12345", "Last-Kill": "365d", "Age": "365d",
		}},
		"mwr": {"managedworkloadrevisions", placement.RevisionName("node-local-dns-cache", "0123456789abcdef"), map[string]string{
			"Workload": "node-local-dns-cache", "Revision": "1234", "Rolled-Out": "false", "Age": "365d",
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			shown := columns(t, tc.plural)
			if want := slices.Sorted(maps.Keys(tc.row)); !slices.Equal(slices.Sorted(slices.Values(shown)), want) {
				t.Fatalf("columns %q, want %q", shown, want)
			}
			width := max(len("NAME"), len(tc.name))
			for _, column := range shown {
				width += gap + max(len(column), len(tc.row[column]))
			}
			if width > terminal {
				t.Errorf("%d characters, want at most %d", width, terminal)
			}
		})
	}
}
