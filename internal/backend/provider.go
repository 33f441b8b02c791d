package backend

import (
	"time"

	"poold/internal/provider"
	"poold/internal/targets"
)

// The pace of polling the simulated provider, which solves quickly, unless the file has another.
const (
	simulatedFirst    = 2 * time.Second
	simulatedInterval = time.Second
)

// ProviderConfig returns the client's configuration of a provider in the file. The caller
// sets URL and Key of a simulated provider.
func ProviderConfig(p targets.Provider) provider.Config {
	config := provider.Config{
		Name: p.Name, API: string(p.API), Profile: p.Profile, URL: p.URL, Key: p.Key,
		FirstPoll: p.FirstPoll, PollInterval: p.PollInterval, Timeout: p.Timeout, Balance: p.Balance,
	}
	if p.API == targets.APISimulated {
		config.API, config.Profile = provider.APILegacy, "2captcha"
		if config.FirstPoll == 0 {
			config.FirstPoll = simulatedFirst
		}
		if config.PollInterval == 0 {
			config.PollInterval = simulatedInterval
		}
	}
	return config
}
