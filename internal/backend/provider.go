package backend

import (
	"time"

	"poold/internal/provider"
	"poold/internal/targets"
)

// These are the default poll times of the simulated provider. Polls are frequent, because this
// provider solves quickly.
const (
	simulatedFirst    = 2 * time.Second
	simulatedInterval = time.Second
)

// ProviderConfig converts a provider in the file to the configuration of the provider's client. For a
// simulated provider the caller must set URL and Key.
func ProviderConfig(p targets.Provider) provider.Config {
	config := provider.Config{
		Name: p.Name, Protocol: string(p.Protocol), Profile: p.Profile, URL: p.URL, Key: p.Key,
		FirstPoll: p.FirstPoll, PollInterval: p.PollInterval, Timeout: p.Timeout, Balance: p.Balance,
	}
	if p.Protocol == targets.ProtocolSimulated {
		config.Protocol, config.Profile = provider.ProtocolInPHP, "2captcha"
		if config.FirstPoll == 0 {
			config.FirstPoll = simulatedFirst
		}
		if config.PollInterval == 0 {
			config.PollInterval = simulatedInterval
		}
	}
	return config
}
