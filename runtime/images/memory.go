// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// memory is what is known of pulls. It is guarded by the manager's lock; the files are
// written from it.
type memory struct {
	records map[string]*record // by what the runtime calls the image
	intents map[string]*intent // by the name of the template
	// preloaded are the images that others have brought.
	preloaded preloaded
	// brokenPreloaded: their file cannot be read.
	brokenPreloaded bool
	// brokenRecords and brokenIntents are the files that cannot be read.
	brokenRecords, brokenIntents map[string]bool
	// unread: the folders cannot be read.
	unread bool
	// unwritten are the files that differ from what is known, with the number of the last change.
	unwritten map[fileKey]int
	changes   int
}

type fileKey struct{ folder, file string }

// readAll reads what an earlier process has left.
func readAll(d disk) (*memory, error) {
	m := &memory{records: map[string]*record{}, intents: map[string]*intent{}, unwritten: map[fileKey]int{}}
	var err error
	m.brokenRecords, err = d.load(pulledFolder, func(file string, data []byte) bool {
		var r record
		if json.Unmarshal(data, &r) != nil || fileOf(r.Ref) != file {
			return false
		}
		m.records[r.Ref] = &r
		return true
	})
	if err == nil {
		m.brokenIntents, err = d.load(pullingFolder, func(file string, data []byte) bool {
			var i intent
			if json.Unmarshal(data, &i) != nil || fileOf(i.Image) != file {
				return false
			}
			i.cutOff = time.Now() // with the process
			m.intents[i.Image] = &i
			return true
		})
	}
	if err == nil {
		m.preloaded, m.brokenPreloaded, err = d.loadPreloaded()
	}
	if err != nil {
		m.unread = true
	}
	return m, err
}

// learn takes over what is known since.
func (m *memory) learn(since *memory) {
	maps.Copy(m.records, since.records)
	maps.Copy(m.intents, since.intents)
	m.unwritten, m.changes = since.unwritten, since.changes
}

// facts returns what is known of an image: of the name in a template, and of what the
// runtime calls what it has by that name.
func (m *memory) facts(image, ref string) facts {
	f := facts{pulled: m.records[ref], preloaded: m.preloaded.has(image, ref)}
	if f.pulled == nil {
		pulling := m.intents[image]
		f.doubtful = m.unread || m.brokenRecords[fileOf(ref)] || m.brokenIntents[fileOf(image)] ||
			pulling != nil && pulling.Before != ref
	}
	return f
}

// content is what a file should hold; nil if it should not exist.
func (m *memory) content(key fileKey) any {
	switch key.folder {
	case preloadedFile.folder:
		return maps.Clone(m.preloaded)
	case pulledFolder:
		for ref, r := range m.records {
			if fileOf(ref) == key.file {
				return r
			}
		}
	case pullingFolder:
		for image, i := range m.intents {
			if fileOf(image) == key.file {
				return *i
			}
		}
	}
	return nil
}

// setRecord keeps a record; it returns the file to write.
func (m *memory) setRecord(r *record) fileKey {
	m.records[r.Ref] = r
	delete(m.brokenRecords, fileOf(r.Ref))
	return m.changed(fileKey{pulledFolder, fileOf(r.Ref)})
}

// changed notes that a file differs from what is known.
func (m *memory) changed(file fileKey) fileKey {
	m.changes++
	m.unwritten[file] = m.changes
	return file
}

// brought notes what a pull has brought. Its intent stays on the disk until the record is there, so that
// the next process knows that the image was pulled.
func (m *memory) brought(i *intent, ref string) {
	if m.unwritten[fileKey{pulledFolder, fileOf(ref)}] != 0 && !slices.Contains(i.Brought, ref) {
		i.Brought = append(slices.Clone(i.Brought), ref)
		m.changed(fileKey{pullingFolder, fileOf(i.Image)})
	}
}

// recorded notes that a record is on the disk as it is known. It returns the files of the intents that
// stayed for it.
func (m *memory) recorded(file string) (files []fileKey) {
	for _, i := range m.intents {
		left := slices.DeleteFunc(slices.Clone(i.Brought), func(ref string) bool { return fileOf(ref) == file })
		if len(left) == len(i.Brought) {
			continue
		}
		i.Brought = left
		files = append(files, m.changed(fileKey{pullingFolder, fileOf(i.Image)}))
		m.release(i)
	}
	return files
}

// doubt requires a pull for images of an earlier process that have no record. An intent does not stay for a
// record that is on the disk.
func (m *memory) doubt() {
	for _, i := range m.intents {
		for _, ref := range i.Brought {
			file := fileKey{pulledFolder, fileOf(ref)}
			if m.records[ref] == nil {
				m.setRecord(&record{Ref: ref, Updated: time.Now()})
			}
			if m.unwritten[file] == 0 {
				m.recorded(file.file)
			}
		}
	}
}

// release forgets an intent that is over. It returns its file.
func (m *memory) release(i *intent) fileKey {
	file := fileKey{pullingFolder, fileOf(i.Image)}
	if i.isOver() {
		delete(m.intents, i.Image)
		delete(m.brokenIntents, file.file)
		m.changed(file)
	}
	return file
}

// prune forgets the images that the runtime did not have when it was asked.
func (m *memory) prune(all []Image, asked time.Time) []fileKey {
	var files []fileKey
	there := map[string]bool{}
	for _, image := range all {
		there[fileOf(image.ID)] = true
	}
	for ref, r := range m.records {
		if !there[fileOf(ref)] && r.Updated.Before(asked) {
			delete(m.records, ref)
			files = append(files, m.changed(fileKey{pulledFolder, fileOf(ref)}))
		}
	}
	for file := range m.brokenRecords {
		if !there[file] {
			delete(m.brokenRecords, file)
			files = append(files, m.changed(fileKey{pulledFolder, file}))
		}
	}
	return files
}

// cutOff returns the pulls of which it is not known how they ended.
func (m *memory) cutOff() []intent {
	var found []intent
	for _, image := range slices.Sorted(maps.Keys(m.intents)) {
		if i := m.intents[image]; i.pulls == 0 && !i.cutOff.IsZero() {
			found = append(found, *i)
		}
	}
	return found
}
