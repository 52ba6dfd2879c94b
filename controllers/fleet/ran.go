// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/internal/revision"
)

// controllerField is the field by which the cache finds the revisions of a ManagedWorkload.
const controllerField = "controllerUID"

func controllerUID(o client.Object) []string {
	if ref := metav1.GetControllerOfNoCopy(o); ref != nil {
		return []string{string(ref.UID)}
	}
	return nil
}

// ReadRevisions has the index look up in a cache what was admitted before. It must be called before the cache
// is started, and Run after that.
func (x *Index) ReadRevisions(ctx context.Context, c cache.Cache) error {
	if err := c.IndexField(ctx, &v1alpha1.ManagedWorkloadRevision{}, controllerField, controllerUID); err != nil {
		return fmt.Errorf("index revisions by their controller: %w", err)
	}
	x.lookUpIn(ctx, c)
	return nil
}

func (x *Index) lookUpIn(ctx context.Context, c client.Reader) {
	x.revisions = func(namespace string, controller types.UID) []v1alpha1.ManagedWorkloadRevision {
		list := &v1alpha1.ManagedWorkloadRevisionList{}
		if err := c.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{controllerField: string(controller)}, client.UnsafeDisableDeepCopy); err != nil {
			x.log.Error(err, "Failed to list revisions; what runs while a change waits does not count", "namespace", namespace)
		}
		return list.Items
	}
}

// admitted is what the admitted template of a revision asks for; hash is "" where the revision was edited by hand.
type admitted struct {
	hash    string
	demands *Demands
}

// admittedSets are by UID and resourceVersion of the revision: a template is hashed once for all nodes.
var admittedSets = &shared[admitted]{most: maxSets}

func admittedBy(object *v1alpha1.ManagedWorkloadRevision) admitted {
	return admittedSets.one(string(object.UID)+"/"+object.ResourceVersion, func() admitted {
		if !Intact(object) {
			return admitted{}
		}
		hash := intern(template.Hash(&object.Spec.Template))
		return admitted{hash, demandsOf(hash, &object.Spec.Template.Spec)}
	}).value
}

// Intact reports whether a revision has the user's template that its label identifies.
func Intact(object *v1alpha1.ManagedWorkloadRevision) bool {
	user, err := revision.User(&object.Spec)
	return err == nil && template.Hash(user) == object.Labels[v1alpha1.LabelRevision]
}

// takeRan counts, in the first Share of a NodeWorkload since this process began, the template that its node
// reports and its spec no longer has. A node can name only what was admitted for its ManagedWorkload.
func (x *Index) takeRan(s *Share, nw *v1alpha1.NodeWorkload, old *Share) {
	if old != nil && old.UID == s.UID || s.TemplateHash == "" || s.TemplateHash == s.SpecHash || !s.Controller.IsWorkload || x.revisions == nil {
		return
	}
	all := x.revisions(s.Namespace, s.Controller.UID)
	for i := range all {
		if ran := admittedBy(&all[i]); ran.hash == s.TemplateHash {
			s.takeEarlier(nw, &Share{UID: s.UID, Demands: ran.demands, Amount: ran.demands.Amount, Usage: ran.demands.Usage})
			return
		}
	}
}
