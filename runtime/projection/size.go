// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

// page is what memory is given out in: a file takes at least one.
const page = 4096

// Size is the memory that files take, in bytes.
func Size(files map[string]File) int64 {
	var pages int64
	for _, file := range files {
		pages += max(1, (int64(len(file.Data))+page-1)/page)
	}
	return pages * page
}
