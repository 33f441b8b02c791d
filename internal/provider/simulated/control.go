package simulated

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
)

// serveFaults replaces the faults in force by a JSON list of Fault. An invalid list changes
// nothing.
func (s *Service) serveFaults(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPut {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	var faults []Fault
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	err := d.Decode(&faults)
	for _, f := range faults {
		if err == nil {
			err = f.check()
		}
	}
	if err != nil {
		http.Error(w, "reading the faults: "+err.Error(), http.StatusBadRequest)
		return
	}
	s.SetFaults(faults...)
	w.WriteHeader(http.StatusNoContent)
}

// check validates a fault.
func (f Fault) check() error {
	actions := []Action{"", Submit, Poll, Balance, Report, Threads, Other}
	kinds := []Kind{Delayed, Drop, Cut, Hang, HTML, Status, Huge, Slow, Redirect, Types, OtherTask, Code}
	switch {
	case !slices.Contains(actions, f.On):
		return fmt.Errorf("unknown action %q", f.On)
	case !slices.Contains(kinds, f.Kind):
		return fmt.Errorf("unknown kind %q", f.Kind)
	case f.Share < 0 || f.Share > 1:
		return fmt.Errorf("share %v is not within 0 and 1", f.Share)
	}
	return nil
}
