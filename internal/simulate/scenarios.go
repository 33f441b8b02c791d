package simulate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"gopkg.in/yaml.v3"

	"poold/internal/refill/policy"
)

// scenario is an entry of the file of --providers: providers that change with the time.
type scenario struct {
	Name      string             `yaml:"name"`
	Types     []string           `yaml:"types"`    // each type has its own demand and its own estimates; none = one type
	Reported  *float64           `yaml:"reported"` // share of tokens on which callers report
	Callers   int                `yaml:"callers"`  // number of callers that report
	Providers []scenarioProvider `yaml:"providers"`
	Changes   []scenarioChange   `yaml:"changes"`
}

type scenarioProvider struct {
	Name            string `yaml:"name"`
	scenarioFigures `yaml:",inline"`
}

// scenarioChange replaces figures of a provider from one time until another; 0 = until the end.
type scenarioChange struct {
	Provider        string        `yaml:"provider"`
	Type            string        `yaml:"type"` // "" = all types
	From            time.Duration `yaml:"from"`
	To              time.Duration `yaml:"to"`
	scenarioFigures `yaml:",inline"`
}

// scenarioFigures are the figures of a provider. A missing figure keeps its value.
type scenarioFigures struct {
	Price    *float64 `yaml:"price_per_1000"`
	Solved   *float64 `yaml:"solved"`
	Accepted *float64 `yaml:"accepted"`
	Lead     *string  `yaml:"lead"`
}

const (
	usualShare    = 0.95 // solved and accepted, if the file has no other figure
	usualReported = 0.6
	usualCallers  = 3
	// perSolve is the number of solves to which prices refer.
	perSolve = 1000
)

// readScenarios reads and checks the file of --providers.
func readScenarios(name string) ([]scenario, error) {
	data, err := os.ReadFile(name) //nolint:gosec // G304: the operator names the file
	if err != nil {
		return nil, fmt.Errorf("reading the scenarios: %w", err)
	}
	var file struct {
		Scenarios []scenario `yaml:"scenarios"`
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(file.Scenarios) == 0 {
		return nil, fmt.Errorf("%s: has no scenario: list some under scenarios", name)
	}
	for i := range file.Scenarios {
		s := &file.Scenarios[i]
		if err := s.check(); err != nil {
			return nil, fmt.Errorf("%s: scenario %q (number %d): %w", name, s.Name, i+1, err)
		}
	}
	return file.Scenarios, nil
}

// check checks a scenario and sets its defaults.
func (s *scenario) check() error {
	if s.Reported == nil {
		s.Reported = new(float64)
		*s.Reported = usualReported
	}
	if s.Callers == 0 {
		s.Callers = usualCallers
	}
	if len(s.Types) == 0 {
		s.Types = []string{""}
	}
	switch {
	case s.Name == "":
		return errors.New("needs a name")
	case len(s.Providers) < 2:
		return errors.New("needs at least two providers")
	case *s.Reported < 0 || *s.Reported > 1:
		return errors.New("reported is a share from 0 to 1")
	case s.Callers < 0:
		return errors.New("callers is at least 1")
	}
	known := map[string]bool{}
	for _, p := range s.Providers {
		if p.Name == "" || known[p.Name] {
			return fmt.Errorf("provider %q: needs a name that no other provider has", p.Name)
		}
		known[p.Name] = true
		if err := p.apply(&policy.ProviderModel{}); err != nil {
			return fmt.Errorf("provider %q: %w", p.Name, err)
		}
	}
	for i, c := range s.Changes {
		switch err := c.apply(&policy.ProviderModel{}); {
		case !known[c.Provider]:
			return fmt.Errorf("change %d: %q is not a provider of the scenario", i+1, c.Provider)
		case c.From < 0 || c.To != 0 && c.To <= c.From:
			return fmt.Errorf("change %d: from is at least 0s, and to is later than from", i+1)
		case err != nil:
			return fmt.Errorf("change %d: %w", i+1, err)
		}
	}
	return nil
}

// apply sets the given figures in a model.
func (f *scenarioFigures) apply(m *policy.ProviderModel) error {
	if f.Price != nil {
		if *f.Price < 0 || *f.Price > mostPrice {
			return errors.New("price_per_1000 is from 0 to 1000000")
		}
		m.Price = *f.Price / perSolve
	}
	for _, share := range []struct {
		name string
		from *float64
		set  func(float64)
	}{{"solved", f.Solved, func(x float64) { m.Solves.Fail = 1 - x }}, {"accepted", f.Accepted, func(x float64) { m.Accepted = x }}} {
		if share.from == nil {
			continue
		}
		if !(*share.from > 0 && *share.from <= 1) {
			return fmt.Errorf("%s is a share above 0 and up to 1", share.name)
		}
		share.set(*share.from)
	}
	if f.Lead != nil {
		return m.Solves.ParseLead(*f.Lead)
	}
	return nil
}

// simulated returns the providers of the scenario for one type.
func (s *scenario) simulated(kind string) []policy.SimulatedProvider {
	list := make([]policy.SimulatedProvider, len(s.Providers))
	for i, p := range s.Providers {
		base := policy.ProviderModel{Price: -1, Accepted: usualShare, Solves: policy.DefaultSolves()}
		base.Solves.Fail = 1 - usualShare
		_ = p.apply(&base) // check has tried it
		list[i] = policy.SimulatedProvider{Name: p.Name, At: func(second float64) policy.ProviderModel {
			m := base
			for _, c := range s.Changes {
				if c.Provider == p.Name && (c.Type == "" || c.Type == kind) && second >= c.From.Seconds() && (c.To == 0 || second < c.To.Seconds()) {
					_ = c.apply(&m)
				}
			}
			return m
		}}
	}
	return list
}

// hourAfterChange reports whether the hour overlaps the hour after a change. The start is a change.
func (s *scenario) hourAfterChange(hour int) bool {
	begins := time.Duration(hour) * time.Hour
	near := func(at time.Duration) bool { return begins < at+time.Hour && begins+time.Hour > at }
	if near(0) {
		return true
	}
	for _, c := range s.Changes {
		if near(c.From) || c.To > 0 && near(c.To) {
			return true
		}
	}
	return false
}
