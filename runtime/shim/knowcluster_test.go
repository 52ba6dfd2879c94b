// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// forbidden is an API server that lets nobody read.
type forbidden struct{ client.Reader }

func (forbidden) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("namespaces \"kube-system\" is forbidden")
}

// A shim that may not ask which cluster this is says so, once.
func TestUnknownClusterIsLogged(t *testing.T) {
	var lines []string
	log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	o := &overseer{cluster: newCluster(forbidden{}, t.TempDir())}
	for range 3 {
		if o.knowCluster(logr.NewContext(t.Context(), log)) {
			t.Fatal("the cluster is known")
		}
	}
	if told := slices.DeleteFunc(lines, func(l string) bool { return !strings.Contains(l, "is forbidden") }); len(told) != 1 {
		t.Errorf("logged %q", told)
	}
}
