// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package vectors

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// BadLinesError says that some lines were not answered.
type BadLinesError struct {
	// Bad of Lines lines are not plan inputs.
	Bad, Lines int
}

// Error implements error.
func (e *BadLinesError) Error() string {
	return fmt.Sprintf("%d of %d lines are not plan inputs", e.Bad, e.Lines)
}

// Run reads plan inputs from in, one a line, and writes one answer for each to
// out, in their order. A line that cannot be read is reported with its number to
// errOut; the others are still answered, and a *BadLinesError is returned
// in the end. Blank lines are skipped.
func Run(in io.Reader, out, errOut io.Writer) error {
	r := &run{
		in:     bufio.NewReaderSize(in, 64<<10),
		out:    bufio.NewWriter(out),
		errOut: errOut,
	}
	if err := errors.Join(r.lines(), r.out.Flush()); err != nil {
		return err
	}
	if r.result.Bad > 0 {
		return &r.result
	}
	return nil
}

type run struct {
	in     *bufio.Reader
	out    *bufio.Writer
	errOut io.Writer
	result BadLinesError
}

func (r *run) lines() error {
	for number := 1; ; number++ {
		line, err := readLine(r.in)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, errLineTooLong):
			err = r.bad(number, err)
		case err != nil:
			err = fmt.Errorf("read line %d: %w", number, err)
		case len(bytes.TrimSpace(line)) > 0:
			err = r.line(number, line)
		}
		if err != nil {
			return err
		}
	}
}

// line answers one line. Its error means that no answer can be written.
func (r *run) line(number int, line []byte) error {
	reply, err := reply(line)
	if err != nil {
		return r.bad(number, err)
	}
	r.result.Lines++
	if _, err := r.out.Write(reply); err != nil {
		return fmt.Errorf("answer line %d: %w", number, err)
	}
	if r.in.Buffered() > 0 {
		return nil
	}
	// The writer may wait for the answer before the next line is written.
	if err := r.out.Flush(); err != nil {
		return fmt.Errorf("answer line %d: %w", number, err)
	}
	return nil
}

func (r *run) bad(number int, cause error) error {
	r.result.Lines++
	r.result.Bad++
	text := strings.ReplaceAll(cause.Error(), "\n", "; ")
	if _, err := fmt.Fprintf(r.errOut, "line %d: %s\n", number, text); err != nil {
		return fmt.Errorf("report line %d: %w", number, err)
	}
	return nil
}

type answer struct {
	ID      string  `json:"id"`
	Actions Actions `json:"actions"`
}

func reply(line []byte) ([]byte, error) {
	id, in, err := Decode(line)
	if err != nil {
		return nil, err
	}
	var reply bytes.Buffer
	encoder := json.NewEncoder(&reply)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(answer{ID: id, Actions: Encode(plan.Compute(in))}); err != nil {
		return nil, fmt.Errorf("encode actions: %w", err)
	}
	return reply.Bytes(), nil
}
