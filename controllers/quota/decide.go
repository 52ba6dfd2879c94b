// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
)

// Held is what a NodeWorkload counts for: what it has, and what it was promised. It counts
// for the larger of both; either may be nil.
type Held struct{ Has, Promised *Usage }

// Ask is a NodeWorkload that is to be made, or to get another template.
type Ask struct {
	Key   types.NamespacedName
	Usage *Usage
}

// Refusal is why a quota has no room, in the API server's words.
type Refusal struct {
	// Quota is its name, and Requested what was asked for of what it is short of.
	Quota, Requested string
	words            string
}

// String is what the API server says of a Pod that does not fit.
func (r Refusal) String() string { return r.words }

// Decide says which asks the quotas of a namespace have no room for. Asks are served in their
// order, and each either whole or not at all. held are the NodeWorkloads of the namespace.
func Decide(quotas []*corev1.ResourceQuota, held map[types.NamespacedName]Held, asks []Ask) map[types.NamespacedName]Refusal {
	accounts := accountsOf(quotas, held)
	refused := map[types.NamespacedName]Refusal{}
	for _, ask := range asks {
		had := held[ask.Key]
		more := make([]corev1.ResourceList, len(accounts))
		for i, a := range accounts {
			more[i] = growth(had.of(a.quota), ask.Usage.of(a.quota))
			if words := a.refuses(more[i]); words != nil {
				refused[ask.Key] = *words
				break
			}
		}
		if _, no := refused[ask.Key]; no {
			continue
		}
		for i, a := range accounts {
			plus(a.used, more[i], 1)
		}
	}
	return refused
}

// account is a quota with what is used of it, by Pods and by NodeWorkloads.
type account struct {
	quota *corev1.ResourceQuota
	used  corev1.ResourceList
}

func accountsOf(quotas []*corev1.ResourceQuota, held map[types.NamespacedName]Held) []account {
	alike := map[Held]int64{} // most NodeWorkloads of a workload are
	for _, h := range held {
		alike[h]++
	}
	accounts := make([]account, 0, len(quotas))
	for _, q := range quotas {
		used := make(corev1.ResourceList, len(q.Status.Used))
		for name, amount := range q.Status.Used {
			used[name] = amount.DeepCopy()
		}
		for h, n := range alike {
			plus(used, h.of(q), n)
		}
		accounts = append(accounts, account{q, used})
	}
	return accounts
}

// of is what it counts for in a quota.
func (h Held) of(q *corev1.ResourceQuota) corev1.ResourceList {
	return largest(h.Has.of(q), h.Promised.of(q))
}

// growth is what is wanted beyond what is had, of those resources of which more is.
func growth(had, wanted corev1.ResourceList) corev1.ResourceList {
	more := corev1.ResourceList{}
	for name, amount := range wanted {
		amount = amount.DeepCopy()
		if known, ok := had[name]; ok {
			amount.Sub(known)
		}
		if amount.Sign() > 0 {
			more[name] = amount
		}
	}
	return more
}

// plus adds amounts n times.
func plus(to, amounts corev1.ResourceList, n int64) {
	for name, amount := range amounts {
		amount = amount.DeepCopy()
		amount.Mul(n)
		sum := to[name]
		sum.Add(amount)
		to[name] = sum
	}
}

// refuses is why there is no room for more, nil if there is. A quota whose use is not known
// yet has none, as for a Pod. (kubernetes
// staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go:CheckRequest)
func (a account) refuses(more corev1.ResourceList) *Refusal {
	var unknown []string
	exceeded := map[corev1.ResourceName]bool{}
	for name, amount := range more {
		hard, known := a.quota.Status.Hard[name]
		if !known {
			unknown = append(unknown, string(name))
			continue
		}
		sum := a.used[name]
		sum = sum.DeepCopy()
		sum.Add(amount)
		exceeded[name] = sum.Cmp(hard) > 0
	}
	slices.Sort(unknown)
	maps.DeleteFunc(exceeded, func(_ corev1.ResourceName, is bool) bool { return !is })
	requested := listed(more, exceeded)
	switch {
	case len(unknown) > 0:
		list := strings.Join(unknown, ",")
		return &Refusal{a.quota.Name, list, fmt.Sprintf("status unknown for quota: %s, resources: %s", a.quota.Name, list)}
	case len(exceeded) > 0:
		return &Refusal{a.quota.Name, requested, fmt.Sprintf("exceeded quota: %s, requested: %s, used: %s, limited: %s",
			a.quota.Name, requested, listed(a.used, exceeded), listed(a.quota.Status.Hard, exceeded))}
	}
	return nil
}

// listed names amounts: "pods=3,requests.cpu=1".
func listed(amounts corev1.ResourceList, which map[corev1.ResourceName]bool) string {
	var parts []string
	for name := range which {
		amount := amounts[name]
		parts = append(parts, string(name)+"="+amount.String())
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

// MadeRoom reports whether a change of a quota may have made room: it limits other things, or
// less of them is used.
func MadeRoom(old, now *corev1.ResourceQuota) bool {
	if !equality.Semantic.DeepEqual(old.Spec, now.Spec) || !equality.Semantic.DeepEqual(old.Status.Hard, now.Status.Hard) {
		return true
	}
	for name, was := range old.Status.Used {
		if is := now.Status.Used[name]; is.Cmp(was) < 0 {
			return true
		}
	}
	return false
}
