"""The published image data sets, one file each; `IMAGE_SETS` in `featavg.registry` lists them.

A file has one name, `SET`: where the files lie, their hashes, what to download, how they are read,
how they are divided into coarse classes and how networks are trained on them. `featavg data`,
`featavg doctor`, the help texts and the presets of `featavg images train` follow from it.
"""
