package record

//go:generate go run -C tools . ../../.. kafkasvc/record/logpb
