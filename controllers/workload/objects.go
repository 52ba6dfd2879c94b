// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"context"
	"slices"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apiobjects "github.com/managedworkload/managedworkload/api/objects"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/objects"
)

// Objects says which objects of a namespace nodes would not get.
type Objects interface {
	Availability(ctx context.Context, namespace string, refs []apiobjects.Ref) (objects.Availability, error)
	// MissingKeys returns which of some keys objects that are there do not have.
	MissingKeys(ctx context.Context, namespace string, refs []apiobjects.KeyRef) ([]apiobjects.KeyRef, error)
	// TokenRight returns why nodes would get no token of a service account, "" if they would.
	TokenRight(ctx context.Context, namespace, account string) (missing string, err error)
}

// objectsAsked is what is known of the objects that a template refers to.
type objectsAsked struct {
	// referred: it refers to some.
	referred bool
	// notServed: no node gets any, or a token.
	notServed bool
	// noRight is why the manager may not read some, "" if it may read all, and noToken why it may not
	// make the token that the template asks for.
	noRight, noToken string
	// tooMuch is why some have no place with the manager, "" if all have.
	tooMuch string
	// missing are those that do not exist and that it cannot do without.
	missing []apiobjects.Ref
	// missingKeys are such keys of objects that exist.
	missingKeys []apiobjects.KeyRef
}

// complete reports whether nodes get all.
func (o *objectsAsked) complete() bool {
	return o.noRight == "" && o.noToken == "" && o.tooMuch == "" && len(o.missing) == 0 && len(o.missingKeys) == 0
}

// gatherObjects asks whether nodes get what the admitted template refers to. No node waits
// for the answer: where there is none, the condition stays as it is.
func (r *Reconciler) gatherObjects(ctx context.Context, s *scope) {
	if s.admitted == nil {
		return
	}
	refs, asksToken := apiobjects.Of(&s.admitted.Spec), len(apiobjects.Tokens(&s.admitted.Spec)) > 0
	refers := len(refs) > 0 || asksToken
	if r.fleet.Objects == nil || !refers {
		s.objects = &objectsAsked{referred: refers, notServed: refers}
		return
	}
	required := apiobjects.Required(&s.admitted.Spec)
	if account, found := apiobjects.AccountOf(&s.admitted.Spec); found {
		refs, required = append(refs, account), append(required, account)
	}
	known, err := r.fleet.Objects.Availability(ctx, s.mw.Namespace, refs)
	var missingKeys []apiobjects.KeyRef
	if err == nil {
		missingKeys, err = r.fleet.Objects.MissingKeys(ctx, s.mw.Namespace, apiobjects.RequiredKeys(&s.admitted.Spec))
	}
	noToken := ""
	if err == nil && asksToken {
		noToken, err = r.fleet.Objects.TokenRight(ctx, s.mw.Namespace, cmp.Or(s.admitted.Spec.ServiceAccountName, "default"))
	}
	if err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Failed to look for the objects that the template refers to; retrying")
		s.wakeAfter(objects.Recheck)
		return
	}
	s.objects = &objectsAsked{referred: true, noRight: known.Message, noToken: noToken, tooMuch: known.TooMuch, missingKeys: missingKeys, missing: slices.DeleteFunc(slices.Clone(known.NotFound), func(ref apiobjects.Ref) bool {
		return !slices.Contains(required, ref)
	})}
	if s.objects.complete() {
		s.wakeAfter(objects.RecheckPresent)
	} else {
		s.wakeAfter(objects.Recheck)
	}
}

// computeObjectsAvailable says whether nodes get what the template refers to.
func computeObjectsAvailable(o *objectsAsked) conditionState {
	missing := ""
	if len(o.missing) > 0 {
		missing = "not found: " + objects.Named(o.missing)
	}
	if len(o.missingKeys) > 0 {
		missing = with(missing, "not found: "+objects.NamedKeys(o.missingKeys))
	}
	switch {
	case o.notServed:
		return no(v1alpha1.ReasonObjectsNotServed, "the component objects is not installed")
	case o.noRight != "" || o.noToken != "": // last, so that the commands can be copied
		return no(v1alpha1.ReasonNoRight, with(with(with(missing, o.tooMuch), o.noRight), o.noToken))
	case o.tooMuch != "":
		return no(v1alpha1.ReasonObjectsTooLarge, with(missing, o.tooMuch))
	case len(o.missing) == 0 && missing != "":
		return no(v1alpha1.ReasonKeyNotFound, missing)
	case missing != "":
		return no(v1alpha1.ReasonObjectNotFound, missing)
	}
	return yes(v1alpha1.ReasonObjectsAvailable, "nodes get all objects that the template refers to")
}

// setObjectsAvailable sets the condition, or removes it where the template refers to nothing
// or is refused.
func setObjectsAvailable(conditions *[]metav1.Condition, f *facts) {
	switch {
	case f.objects == nil && (f.verdict.Accepted || f.verdict.Undecided):
	case f.objects == nil || !f.objects.referred:
		meta.RemoveStatusCondition(conditions, v1alpha1.ConditionObjectsAvailable)
	default:
		setCondition(conditions, f, v1alpha1.ConditionObjectsAvailable, computeObjectsAvailable(f.objects))
	}
}
