module example.com/headlesscrm

go 1.19
