package pubsubfake

type snapshot struct{}
