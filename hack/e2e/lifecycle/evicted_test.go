// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"strings"
	"testing"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// A workload that writes more than it may is evicted in the kubelet's words, and made again
// with an empty disk.
func TestEvictedForItsDiskUsage(t *testing.T) {
	t.Parallel()
	const size = 100 << 10
	for name, tt := range map[string]struct{ limits, volume, folder, message string }{
		"volume": {
			"{}", "{sizeLimit: 500Ki}", "/data",
			`Usage of EmptyDir volume "data" exceeds the limit "500Ki". `,
		},
		"root file system": {
			"{limits: {ephemeral-storage: 500Ki}}", "{}", "",
			"Pod ephemeral local storage usage exceeds the total limit of containers 500Ki. ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var writes strings.Builder
			for i := range 8 {
				fmt.Fprintf(&writes, `, ",", write, %s/file%d, %s`, tt.folder, i, strings.Repeat("x", size))
			}
			w := env.Apply(t, fmt.Sprintf(`
containers:
- name: c
  image: managedworkload.dev/testprogram:v1
  args: [seq, wait-file, /dir/go, ",", rm, /dir/go%s, ",", sleep, 1h]
  resources: %s
  volumeMounts: [{name: dir, mountPath: /dir}, {name: data, mountPath: /data}]
volumes: [{name: dir, hostPath: {path: $DIR}}, {name: data, emptyDir: %s}]`, &writes, tt.limits, tt.volume))
			before := w.AwaitReady()
			touch(t, w, "go")
			mw := w.AwaitObject("its kill is reported", func(mw *v1alpha1.ManagedWorkload) bool {
				return len(mw.Status.RecentKills) > 0 && mw.Status.RecentKills[0].Phase == v1alpha1.KillPhaseDone
			})
			kill := mw.Status.RecentKills[0].KillRecord
			checkKill(t, kill, v1alpha1.KillRecord{
				Trigger: v1alpha1.TriggerEvicted, Message: tt.message, Outcome: kill.Outcome, Grace: grace(1, v1alpha1.GraceSourceOverride),
			})
			w.AwaitEvent("Evicted", tt.message)
			after := w.Await("it is made again", func(nw *v1alpha1.NodeWorkload) bool {
				return nw.UID != before.UID && nw.Status.Ready == "1/1"
			})
			w.AwaitReady()
			if len(after.Status.Kills) != 0 {
				t.Errorf("the new one was killed: %+v", after.Status.Kills)
			}
		})
	}
}
