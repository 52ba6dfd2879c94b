// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"testing"
	"time"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

func TestCheckWhatARestoredEtcdLacks(t *testing.T) {
	checkTests{
		"a kill that a restored etcd asked for": {
			history: History{
				Lives: []Life{obeyed()}, Records: []Record{recorded(v1alpha1.KillOutcomeGraceful, func(r *Record) { r.Trigger = v1alpha1.TriggerOrphan })},
				Created: map[string]time.Time{"u": at(85)},
				Faults:  []Fault{{API: true, Backup: at(80), From: at(95), To: at(98)}},
			},
			wantExempt: map[string]int{"not in the restored etcd": 1},
		},
		"a kill because a restored etcd has an earlier template": {
			history: History{
				Lives: []Life{obeyed(func(l *Life) { l.Revision = 3 })}, Records: []Record{recorded(v1alpha1.KillOutcomeGraceful, func(r *Record) { r.Trigger = v1alpha1.TriggerDefinitionChanged })},
				Requests: []Request{deleted(func(r *Request) { r.Kind, r.Revision, r.From, r.Acked = Change, 2, at(85), at(85) })},
				Created:  map[string]time.Time{"u": at(50)},
				Faults:   []Fault{{API: true, Backup: at(80), Has: map[string]int{"u": 2}, From: at(95), To: at(98)}},
			},
			wantExempt: map[string]int{"not in the restored etcd": 1},
		},
		"a kill after a restoration that has its template": {
			history: History{
				Lives: []Life{obeyed(func(l *Life) { l.Revision = 3 })}, Records: []Record{recorded(v1alpha1.KillOutcomeGraceful, func(r *Record) { r.Trigger = v1alpha1.TriggerOrphan })},
				Requests: []Request{deleted(func(r *Request) { r.Kind, r.Revision, r.From, r.Acked = Change, 3, at(40), at(40) })},
				Created:  map[string]time.Time{"u": at(30)},
				Faults:   []Fault{{API: true, Backup: at(80), Has: map[string]int{"u": 3}, From: at(95), To: at(98)}},
			},
			wantRules: []string{"kill not requested"},
		},
		"a kill of what was created after the restoration": {
			history: History{
				Lives: []Life{obeyed(func(l *Life) { l.Start = at(99) })}, Records: []Record{recorded(v1alpha1.KillOutcomeGraceful, func(r *Record) { r.Trigger = v1alpha1.TriggerOrphan })},
				Created: map[string]time.Time{"u": at(99)},
				Faults:  []Fault{{API: true, Backup: at(80), From: at(95), To: at(98)}},
			},
			wantRules: []string{"kill not requested"},
		},
		"a kill after a restoration of what was the same in the copy": {
			history: History{
				Lives: []Life{obeyed()}, Records: []Record{recorded(v1alpha1.KillOutcomeGraceful, func(r *Record) { r.Trigger = v1alpha1.TriggerOrphan })},
				Created: map[string]time.Time{"u": at(0)},
				Faults:  []Fault{{API: true, Backup: at(80), Has: map[string]int{"u": 1}, From: at(95), To: at(98)}},
			},
			wantRules: []string{"kill not requested"},
		},
		"a kill of what was deleted before the copy was made, and came back by an earlier one": {
			history: History{
				Lives:   []Life{obeyed()},
				Created: map[string]time.Time{"u": at(0)},
				Faults: []Fault{
					{API: true, Backup: at(10), Has: map[string]int{"u": 1}, From: at(60), To: at(65)},
					{API: true, Backup: at(50), Has: map[string]int{}, From: at(95), To: at(98)},
				},
			},
			wantExempt: map[string]int{"not in the restored etcd": 1, "record not in the restored etcd": 1},
		},
		"a record whose end a restored etcd has no object for": {
			history: History{
				Lives: []Life{obeyed()}, Requests: []Request{deleted()}, Records: []Record{
					recorded("", func(r *Record) { r.Phase = v1alpha1.KillPhaseStopping }),
				},
				Created: map[string]time.Time{"u": at(95)},
				Faults:  []Fault{{API: true, Backup: at(90), From: at(100.5), To: at(110)}},
			},
			wantExempt: map[string]int{"end of a record not in the restored etcd": 1},
		},
		"a container of an object that was gone and came back": {
			history: History{
				Lives: []Life{obeyed()}, Requests: []Request{deleted()}, Records: graceful(),
				Gone:   map[string]time.Time{"u": at(40)},
				Faults: []Fault{{API: true, Backup: at(30), Has: map[string]int{"u": 1}, From: at(60), To: at(65)}},
			},
		},
		"a container of an object that was gone, whatever else came back": {
			history: History{
				Lives: []Life{obeyed()}, Requests: []Request{deleted()}, Records: graceful(),
				Gone:   map[string]time.Time{"u": at(70)},
				Faults: []Fault{{API: true, Backup: at(30), Has: map[string]int{"u": 1}, From: at(60), To: at(65)}},
			},
			wantRules: []string{"kill not completed"},
		},
		"a kill that a restored etcd does not know": {
			history: History{
				Lives:    []Life{obeyed(func(l *Life) { l.Term, l.Last = at(190), at(191) })},
				Requests: []Request{deleted()}, Records: graceful(),
				Faults: []Fault{{API: true, Backup: at(50), From: at(110), To: at(115)}},
			},
			wantExempt: map[string]int{"request not in the restored etcd": 1},
		},
		"a kill that should have been completed before etcd was restored": {
			history: History{
				Lives:    []Life{obeyed(func(l *Life) { l.Term, l.Last = at(190), at(191) })},
				Requests: []Request{deleted()}, Records: graceful(),
				Faults: []Fault{{API: true, Backup: at(50), From: at(180), To: at(185)}},
			},
			wantRules: []string{"kill not completed"},
		},
		"a kill whose record a restored etcd lacks": {
			history: History{
				Lives: []Life{obeyed()}, Requests: []Request{deleted()},
				Created: map[string]time.Time{"u": at(95)},
				Faults:  []Fault{{API: true, Backup: at(90), From: at(102), To: at(110)}},
			},
			wantExempt: map[string]int{"record not in the restored etcd": 1},
		},
	}.run(t)
}
