setup:
	@tools/setup build
