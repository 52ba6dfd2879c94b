// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package writes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// Edit is a change of a NodeWorkload that is known only in part: a JSON Patch (RFC 6902)
// that fails when the object is another one or has changed since it was read. What it
// does not name stays as it is.
type Edit struct {
	key        types.NamespacedName
	operations []operation
}

// operation is one of a JSON Patch. Its value is written also where it is empty.
type operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

// tests is how many operations of an Edit test whose object it is.
const tests = 2

// NewEdit begins a change of the NodeWorkload of that UID as it was at resourceVersion.
func NewEdit(key types.NamespacedName, uid types.UID, resourceVersion string) *Edit {
	e := &Edit{key: key}
	e.add("test", uid, "metadata", "uid")
	e.add("test", resourceVersion, "metadata", "resourceVersion")
	return e
}

// Set gives a field a value, whether it had one or not. What is above it must exist.
// In a list it inserts; the name "-" stands for its end.
func (e *Edit) Set(value any, path ...string) { e.add("add", value, path...) }

// Replace gives a field or an item of a list another value; it must exist.
func (e *Edit) Replace(value any, path ...string) { e.add("replace", value, path...) }

// Test makes the change fail where a field has another value.
func (e *Edit) Test(value any, path ...string) { e.add("test", value, path...) }

// Remove removes a field, which must exist.
func (e *Edit) Remove(path ...string) {
	e.operations = append(e.operations, operation{Op: "remove", Path: pointer(path)})
}

// Empty reports whether the edit changes nothing.
func (e *Edit) Empty() bool { return len(e.operations) == tests }

func (e *Edit) add(op string, value any, path ...string) {
	// Values are strings, numbers, maps and API types: encoding them cannot fail, and a
	// patch without a value would be refused as a whole.
	data, err := json.Marshal(value)
	if err != nil {
		data = nil
	}
	e.operations = append(e.operations, operation{Op: op, Path: pointer(path), Value: data})
}

// pointer is a JSON Pointer (RFC 6901).
func pointer(path []string) string {
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	var b strings.Builder
	for _, name := range path {
		b.WriteString("/" + escape.Replace(name))
	}
	return b.String()
}

// Apply writes the edit and returns the NodeWorkload as the API server has it then. An
// object that has changed is a conflict.
func (e *Edit) Apply(ctx context.Context, c client.Client) (*v1alpha1.NodeWorkload, error) {
	return e.send(func(nw *v1alpha1.NodeWorkload, patch client.Patch) error { return c.Patch(ctx, nw, patch) })
}

// ApplyStatus is Apply for the subresource status.
func (e *Edit) ApplyStatus(ctx context.Context, c client.Client) (*v1alpha1.NodeWorkload, error) {
	return e.send(func(nw *v1alpha1.NodeWorkload, patch client.Patch) error { return c.Status().Patch(ctx, nw, patch) })
}

func (e *Edit) send(patch func(*v1alpha1.NodeWorkload, client.Patch) error) (*v1alpha1.NodeWorkload, error) {
	data, err := json.Marshal(e.operations)
	if err != nil {
		return nil, fmt.Errorf("encode a change of NodeWorkload %q: %w", e.key.Name, err)
	}
	nw := &v1alpha1.NodeWorkload{}
	nw.Namespace, nw.Name = e.key.Namespace, e.key.Name
	if err := patch(nw, client.RawPatch(types.JSONPatchType, data)); err != nil {
		if isFailedTest(err) {
			return nil, apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("nodeworkloads").GroupResource(), e.key.Name,
				errors.New("it has changed since it was read"))
		}
		return nil, err
	}
	return nw, nil
}

// isFailedTest reports whether a JSON Patch did not fit the object. The API server answers
// 422 in these words without a cause; validation and policies give a cause, webhooks their
// own words.
// (kubernetes apiserver/pkg/endpoints/handlers/patch.go:applyJSPatch)
func isFailedTest(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return strings.Contains(err.Error(), "testing value") // the client of tests
	}
	status := answer.Status()
	return status.Code == http.StatusUnprocessableEntity && (status.Details == nil || len(status.Details.Causes) == 0) &&
		strings.Contains(status.Message, "rejected our request due to an error in our request")
}
