"""The published image data sets; `IMAGE_SETS` in `featavg.registry` says which file has which.

Each is an `ImageSet`: where the files lie, their hashes, what to download, how they are read,
how they are divided into coarse classes and how networks are trained on them. `featavg data`,
`featavg doctor`, the help texts and the presets of `featavg images train` follow from it.
"""
