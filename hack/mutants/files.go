// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

var hostfsMistakes = []mistake{
	{"the order of unmounts is ignored", "Patience.unmountTree",
		"for i, mount := range slices.Backward(tree.mounts) {", "for i, mount := range tree.mounts {"},
	{"a bind stays a peer of the node's mount", "Bind",
		"if shared {\n\t\treturn nil\n\t}", "if shared || source != nil {\n\t\treturn nil\n\t}"},
	{"mounts are not private before they are unmounted", "Patience.unmountTree",
		"if len(tree.mounts) > 1 && anyShared(tree.mounts) {", "if len(tree.mounts) > 1000 {"},
	{"only the topmost mount is private before the unmount", "Patience.unmountTree",
		"unix.MS_REC|unix.MS_PRIVATE", "unix.MS_PRIVATE"},
	{"a mount of the node on a peer is unmounted", "Patience.unmountTree",
		"if anyShared(tree.covered) {", "if false {"},
	{"a deep tree takes a descriptor for each level", "removal.remove",
		"if depth >= maxOpenDirs {", "if depth >= 1000000 {"},
	{"a mount that only a call that hangs uses stays", "Patience.hung",
		"errors.Is(err, unix.EBUSY) && p.hangs(path)", "errors.Is(err, unix.EBUSY) && p.hangs(path) && false"},
	{"an unmount waits for other calls about its path", "Patience.unmount",
		`key := "unmount of " + path`, "key := path"},
	{"a mount in use is detached while any call is under way", "Patience.hangs",
		"call.late && (", "(call.late || key != path+path) && ("},
}

var volumeMistakes = []mistake{
	{"an emptyDir's marker is believed whatever is mounted", "Manager.setUpEmptyDir",
		"giveAway(ctx, on.pod, volume, k, want.mode, same)", "giveAway(ctx, on.pod, volume, k, want.mode, same || true)"},
	{"an emptyDir in memory that moved to the disk stays in memory", "Manager.setUpEmptyDir",
		"if !same && ours != nil {", "if !same && ours != nil && false {"},
	{"files are written where no tmpfs is", "inMemory",
		"err == nil && stat.Type != unix.TMPFS_MAGIC", "err == nil && stat.Type == 1"},
	{"files of volumes have no bound in sum", "Manager.project",
		"on.taken+size > maxFiles", "size > maxFiles"},
	{"files change under containers of an earlier template", "Manager.refreshFiles",
		"if err != nil || !isSetUp {", "if err != nil || !isSetUp && false {"},
	{"what a pod waits for is not set up when it comes", "Manager.due",
		"p.stale && p.err != nil:", "p.stale && p.err == nil && false:"},
	{"setgid of a new subPath directory is lost", "openOrMake",
		"info.Mode()&(fs.ModePerm|fs.ModeSticky)|made.Mode()&fs.ModeSetgid)", "info.Mode()&fs.ModePerm+0*made.Mode())"},
	{"only the last new directory of a subPath has the mode of the volume", "openIn",
		"for i := 1; i < len(parts); i++ {", "for i := len(parts); i < len(parts); i++ {"},
	{"a start does not wait for objects that may still arrive", "Manager.await",
		"(late || !errors.Is(err, objects.ErrNotReceived))", "(late || !errors.Is(err, objects.ErrNotReceived) || true)"},
	{"a container whose ConfigMap was deleted does not start again", "Manager.unlessSetUp",
		"if failed != nil || !isSetUp {", "if failed != nil || !isSetUp || isSetUp {"},
	{"every subPath is shared with the node", "Manager.BindSubPath",
		"s.Propagation == corev1.MountPropagationBidirectional)", "true)"},
	{"a mount that does not reach the node is used", "Manager.seenByTheNode",
		"if err != nil || !known || there {", "if err != nil || !known || there || !there {"},
}

var atomicfilesMistakes = []mistake{
	{"any directory counts as the current version", "writer.currentVersion",
		"!info.IsDir() || !isVersion(name)", "!info.IsDir()"},
	{"files get their modes by the umask", "writer.writeFiles",
		"if err := w.dir.Chmod(full, w.content.fileMode(file)); err != nil {", "if err := error(nil); err != nil {"},
	{"what a crash has left stays", "writer.removeOld",
		"case isVersion(name):", "case isVersion(name) && false:"},
}

var projectionMistakes = []mistake{
	{"an optional object that was not received counts as missing", "resolve",
		"optional && apierrors.IsNotFound(got.Err)", "optional && got.Err != apierrors.NewBadRequest(\"\")"},
	{"a token is readable by all beside the group", "Facts.token",
		"if owner != nil || hasGroup(pod) {", "if owner != nil {"},
}

var poddirMistakes = []mistake{
	{"containers may write to files of volumes", "Manager.volumeMount",
		"wanted.ReadOnly || m.volumes.ReadOnly(pod, wanted.Name)", "wanted.ReadOnly"},
	{"a released pod keeps its cgroup", "Manager.release",
		"if err := m.cgroups.Remove(ctx, uid); err != nil {", "if err := error(nil); err != nil {"},
	{"a removed pod keeps its cgroup", "Manager.remove",
		"if err := m.cgroups.Remove(ctx, pod.UID); err != nil {", "if err := error(nil); err != nil {"},
	{"a released pod keeps its user namespace", "Manager.release",
		"return m.users.Release(uid)", "return nil"},
}

var usernsMistakes = []mistake{
	{"a pod gets the IDs of the node's users", "Ranges.free",
		"slot := uint64(1)", "slot := uint64(0)"},
	{"a range is given away while the range of a pod is unknown", "Ranges.pick",
		"for other, err := range r.unknown {", "for other, err := range map[types.UID]error{} {"},
	{"two pods may have recorded one range", "Ranges.restore",
		`case err == nil && r.users[first] != "":`, "case false:"},
	{"a range that could not be recorded is used", "Ranges.Of",
		"if err := r.record(uid, first); err != nil {", "if err := r.record(uid, first); err == nil && first == 0 {"},
	{"a released range comes back after a restart", "Ranges.Release",
		"if err := statefile.Remove(r.file(uid)); err != nil {", "if err := error(nil); err != nil {"},
}

var podcgroupMistakes = []mistake{
	{"a busy cgroup is not tried again", "removeCgroupDir",
		"|| try == cgroupRemovals {", "|| try <= cgroupRemovals {"},
	{"a cgroup file system that cannot be seen counts as a missing cgroup", "Manager.State",
		"case !errors.Is(err, fs.ErrNotExist) || !isCgroupFS(strings.TrimSuffix(dir, path)):", "case !errors.Is(err, fs.ErrNotExist) || !isCgroupFS(strings.TrimSuffix(dir, path)) && false:"},
	{"one container outside its cgroup proves it for all", "Manager.runOutside",
		"err != nil || !outside {\n\t\t\treturn false, err\n\t\t}", "err == nil && outside {\n\t\t\treturn true, nil\n\t\t}"},
	{"a process that exits counts as outside its cgroup", "Manager.began",
		`flags&exiting != 0 || state == "Z" || state == "X"`, `flags == 1<<63 || state == "none"`},
	{"a container that never was in the pod's cgroup has left it", "Manager.runsOutside",
		"if !namesPod(made, uid) {", `if made == "none" {`},
	{"a process ID that went to another process is trusted", "Manager.runsOutside",
		"err != nil || again != pid {", "err != nil || again < 0 {"},
	{"a cgroup that is made again hides what left it", "Manager.Outside",
		"case len(suspects) == 0:", "default:"},
	{"a limit of the parent that someone else has set is taken back", "nextStep",
		"now == held.Set && now != held.Before", "now != held.Before"},
	{"a bound that something else changed stays changed", "nextStep",
		"s.claim = &claim{Set: wanted, Before: held.Before}\n\t\ts.value, s.change = wanted, now != wanted", "s.claim = &claim{Set: wanted, Before: held.Before}\n\t\ts.value, s.change = wanted, held.Set != wanted"},
	{"a bound below what is in use is set", "parentCgroup.set",
		"if use > s.value {", "if use < 0 {"},
	{"containers that started since count as outside", "Manager.Outside",
		"return !slices.Contains(suspects, id) }):", "return !slices.Contains(suspects, id) && false }):"},
}
