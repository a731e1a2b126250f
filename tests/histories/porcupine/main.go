// Checks histories of pages with Porcupine, and compares its verdicts with those of the checker in tests/services/linearizability.
//
//	porcupine histories.jsonl …
//
// A line is the history of one page, with the other checker's verdict (for_second_checker.rs writes them). This program shares
// nothing with that checker: it has a specification of its own (page.go), and its own translation of calls that have no answer. It
// prints how many histories of each test have which verdict, and every history with two verdicts. It fails if there is one, or none
// to compare.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

// Far longer than any history takes. After it, the history counts as one on which the checkers differ.
const atMost = time.Minute

type history struct {
	Test           string
	Page           string
	IsLinearizable bool `json:"is_linearizable"`
	Calls          []recorded
}

// Moments are places in the order of all events of the history.
type recorded struct {
	Invoked  int64
	Call     call
	Answered *int64
	Answer   *answer
}

var model = porcupine.Model{
	Init: func() any { return page{} },
	Step: func(state, input, output any) (bool, any) {
		told, after := state.(page).answer(input.(call))
		said, isKnown := output.(answer)
		return !isKnown || said.canBe(told), after
	},
}

// operations are the calls that may have had an effect or were answered. A call without an answer may take effect at any later
// moment. Never is the same to everybody as after everything else.
func (h history) operations() []porcupine.Operation {
	var operations []porcupine.Operation
	for client, r := range h.Calls {
		operation := porcupine.Operation{ClientId: client, Input: r.Call, Call: r.Invoked, Return: math.MaxInt64}
		if r.Answer != nil && r.Answer.Kind == "nothing_changed" {
			continue
		}
		if r.Answer != nil && r.Answer.Kind != "unknown" {
			operation.Output, operation.Return = *r.Answer, *r.Answered
		}
		operations = append(operations, operation)
	}
	return operations
}

// The verdicts on the histories of one test.
type tally struct{ histories, calls, impossible, different int }

func main() {
	tallies := map[string]*tally{}
	var all tally
	for _, path := range os.Args[1:] {
		file, err := os.Open(path)
		check(err)
		for lines := bufio.NewReader(file); ; {
			line, err := lines.ReadBytes('\n')
			if err == io.EOF && len(line) == 0 {
				break
			}
			check(err)
			var h history
			check(json.Unmarshal(line, &h))
			one := verdict(h, line)
			if tallies[h.Test] == nil {
				tallies[h.Test] = &tally{}
			}
			tallies[h.Test].add(one)
			all.add(one)
		}
		check(file.Close())
	}
	var names []string
	for name := range tallies {
		names = append(names, name)
	}
	sort.Strings(names)
	fmt.Println("histories      calls  impossible  different  test")
	for _, name := range names {
		tallies[name].print(name)
	}
	all.print("all")
	if all.different > 0 || all.histories == 0 {
		os.Exit(1)
	}
}

// verdict prints the history if the two checkers differ.
func verdict(h history, line []byte) tally {
	result := porcupine.CheckOperationsTimeout(model, h.operations(), atMost)
	one := tally{histories: 1, calls: len(h.Calls)}
	if !h.IsLinearizable {
		one.impossible = 1
	}
	if result == porcupine.Unknown || (result == porcupine.Ok) != h.IsLinearizable {
		one.different = 1
		fmt.Printf("%s, page %q: linearizable %v, by Porcupine %s\n%s", h.Test, h.Page, h.IsLinearizable, result, line)
	}
	return one
}

func (t *tally) add(other tally) {
	t.histories += other.histories
	t.calls += other.calls
	t.impossible += other.impossible
	t.different += other.different
}

func (t *tally) print(name string) {
	fmt.Printf("%9d %10d %11d %10d  %s\n", t.histories, t.calls, t.impossible, t.different, name)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "porcupine:", err)
		os.Exit(2)
	}
}
